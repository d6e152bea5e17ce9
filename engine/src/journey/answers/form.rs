//! Values of the fields of HTML forms, as a browser would send them if nobody touched the form.
use super::html::{Document, Tag, decode_text, decode_textarea, decode_value};
use std::borrow::Cow;

/// The value of a field, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValue<'a> {
    /// Value of an attribute.
    Attribute(&'a [u8]),
    /// Content of a textarea.
    Area(&'a [u8]),
    /// Text of an option that has no value.
    Label(&'a [u8]),
}

impl<'a> FieldValue<'a> {
    /// As it is meant.
    pub fn decode(self) -> Cow<'a, str> {
        match self {
            Self::Attribute(value) => decode_value(value),
            Self::Area(text) => decode_textarea(text),
            Self::Label(text) => match decode_text(text) {
                text if text.split_ascii_whitespace().eq([&*text]) => text,
                text => Cow::Owned(text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")),
            },
        }
    }
}

/// Gives every value of the fields of this name, in their order, to `each`, until that is false.
pub fn fields<'a>(html: &'a [u8], name: &str, each: &mut impl FnMut(FieldValue<'a>) -> bool) {
    let mut document = Document::new(html);
    while let Some(tag) = document.next_tag() {
        if tag.is_end {
            continue;
        }
        let goes_on = if tag.starts(b"input") {
            input(&tag, name).is_none_or(&mut *each)
        } else if tag.starts(b"select") && Field::of(&tag).is_sent(name) {
            select(&mut document, &tag, each)
        } else if let Some(text) = document.text_of(tag.name) {
            let is_meant = tag.starts(b"textarea") && Field::of(&tag).is_sent(name);
            !is_meant || each(FieldValue::Area(text))
        } else {
            true
        };
        if !goes_on {
            return;
        }
    }
}

/// The attributes that matter, as they are written.
#[derive(Default)]
struct Field<'a> {
    name: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    kind: Option<&'a [u8]>,
    chosen: bool,
    disabled: bool,
    multiple: bool,
}

impl<'a> Field<'a> {
    fn of(tag: &Tag<'a>) -> Self {
        let mut field = Self::default();
        for (name, value) in tag.attributes() {
            match name.len() {
                4 if name.eq_ignore_ascii_case(b"name") => field.name = field.name.or(Some(value)),
                5 if name.eq_ignore_ascii_case(b"value") => field.value = field.value.or(Some(value)),
                4 if name.eq_ignore_ascii_case(b"type") => field.kind = field.kind.or(Some(value)),
                7 if name.eq_ignore_ascii_case(b"checked") => field.chosen = true,
                8 if name.eq_ignore_ascii_case(b"selected") => field.chosen = true,
                8 if name.eq_ignore_ascii_case(b"disabled") => field.disabled = true,
                8 if name.eq_ignore_ascii_case(b"multiple") => field.multiple = true,
                _ => {}
            }
        }
        field
    }

    fn is_sent(&self, name: &str) -> bool {
        let is_meant = |written: &[u8]| {
            written == name.as_bytes() || written.contains(&b'&') && decode_value(written) == name
        };
        !self.disabled && self.name.is_some_and(is_meant)
    }
}

fn input<'a>(tag: &Tag<'a>, name: &str) -> Option<FieldValue<'a>> {
    let field = Field::of(tag);
    if !field.is_sent(name) {
        return None;
    }
    let is = |kind: &[u8]| field.kind.is_some_and(|written| written.eq_ignore_ascii_case(kind));
    let is_box = is(b"checkbox") || is(b"radio");
    if is_box && !field.chosen {
        return None;
    }
    Some(FieldValue::Attribute(field.value.unwrap_or(if is_box { b"on" } else { b"" })))
}

/// Reads up to the end of a select; false if `each` has had enough.
fn select<'a>(
    document: &mut Document<'a>,
    tag: &Tag<'a>,
    each: &mut impl FnMut(FieldValue<'a>) -> bool,
) -> bool {
    let multiple = Field::of(tag).multiple;
    let (mut first, mut last_chosen) = (None, None);
    let mut open: Option<(Field<'a>, usize)> = None;
    loop {
        let tag = document.next_tag();
        let ends = |tag: &Tag<'_>| {
            tag.starts(b"option") || tag.ends(b"option") || tag.starts(b"optgroup") || tag.ends(b"select")
        };
        if tag.as_ref().is_none_or(ends)
            && let Some((option, from)) = open.take()
            && !option.disabled
        {
            let to = tag.as_ref().map(|tag| tag.starts_at);
            let label = || FieldValue::Label(document.between(from, to));
            let value = option.value.map_or_else(label, FieldValue::Attribute);
            first = first.or(Some(value));
            if option.chosen && multiple && !each(value) {
                return false;
            }
            last_chosen = if option.chosen { Some(value) } else { last_chosen };
        }
        match tag {
            Some(tag) if tag.starts(b"option") => open = Some((Field::of(&tag), document.at())),
            Some(tag) if !tag.ends(b"select") => {
                document.text_of(if tag.is_end { b"" } else { tag.name });
            }
            _ => break,
        }
    }
    multiple || last_chosen.or(first).is_none_or(each)
}

#[cfg(test)]
#[path = "form_tests.rs"]
mod tests;
