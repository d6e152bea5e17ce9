//! `Set-Cookie` lines, read as RFC 6265, section 5.2, has it: what user agents do, not what servers should send.

/// A longer value of an attribute is ignored, as browsers do.
const MAX_ATTRIBUTE_BYTES: usize = 1024;

/// A line, taken apart. Values are slices of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetCookie<'a> {
    /// Never empty.
    pub name: &'a [u8],
    /// Quotes are part of it.
    pub value: &'a [u8],
    /// Without its leading dot, never empty.
    pub domain: Option<&'a [u8]>,
    /// Begins with a slash.
    pub path: Option<&'a [u8]>,
    /// Seconds from now; 0 and less: it is to be deleted.
    pub max_age_s: Option<i64>,
    /// In seconds since 1970.
    pub expires_unix_s: Option<i64>,
    /// Only over https.
    pub secure: bool,
}

impl<'a> SetCookie<'a> {
    /// Reads a line; none if it is to be ignored as a whole.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        if line.iter().any(|b| (*b < b' ' && *b != b'\t') || *b == 0x7f) {
            return None;
        }
        let mut parts = line.split(|b| *b == b';');
        let (name, value) = split(parts.next()?)?;
        let mut cookie = Self { name: Some(name).filter(|n| !n.is_empty())?, value, ..Self::default() };
        // An attribute that comes twice counts as it comes last.
        for part in parts {
            let (name, value) = split(part).unwrap_or((trim(part), b""));
            match name.len() {
                _ if value.len() > MAX_ATTRIBUTE_BYTES => {}
                7 if name.eq_ignore_ascii_case(b"expires") => {
                    cookie.expires_unix_s = cookie_date(value).or(cookie.expires_unix_s);
                }
                7 if name.eq_ignore_ascii_case(b"max-age") => {
                    cookie.max_age_s = max_age(value).or(cookie.max_age_s);
                }
                6 if name.eq_ignore_ascii_case(b"domain") => {
                    let domain = value.strip_prefix(b".").unwrap_or(value);
                    cookie.domain = Some(domain).filter(|d| !d.is_empty()).or(cookie.domain);
                }
                4 if name.eq_ignore_ascii_case(b"path") => {
                    cookie.path = Some(value).filter(|p| p.starts_with(b"/"));
                }
                6 if name.eq_ignore_ascii_case(b"secure") => cookie.secure = true,
                _ => {}
            }
        }
        Some(cookie)
    }
}

fn split(part: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = part.iter().position(|b| *b == b'=')?;
    Some((trim(&part[..at]), trim(&part[at + 1..])))
}

fn trim(text: &[u8]) -> &[u8] {
    text.trim_ascii()
}

/// A sign and digits; what is too large for 64 bits is as good as for ever.
fn max_age(value: &[u8]) -> Option<i64> {
    let (sign, digits) = value.strip_prefix(b"-").map_or((1, value), |digits| (-1, digits));
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: i64, digit: &u8| sum.saturating_mul(10).saturating_add(i64::from(digit - b'0'));
    Some(sign * digits.iter().fold(0, add))
}

/// Section 5.1.1: a date of almost any form, in seconds since 1970.
pub fn cookie_date(text: &[u8]) -> Option<i64> {
    let (mut time, mut day, mut month, mut year) = (None, None, None, None);
    let is_delimiter = |b: &u8| matches!(b, 0x09 | 0x20..=0x2f | 0x3b..=0x40 | 0x5b..=0x60 | 0x7b..=0x7e);
    for token in text.split(is_delimiter).filter(|t| !t.is_empty()) {
        if let (None, Some(found)) = (time, hms(token)) {
            time = Some(found);
        } else if let (None, Some(found)) = (day, number(token, 1..=2)) {
            day = Some(found);
        } else if let (None, Some(found)) = (month, month_of(token)) {
            month = Some(found);
        } else if let (None, Some(found)) = (year, number(token, 2..=4)) {
            year = Some(found);
        }
    }
    let (day, month, (hour, minute, second)) = (day?, month?, time?);
    let year = match year? {
        short @ 70..=99 => short + 1900,
        short @ 0..=69 => short + 2000,
        long => long,
    };
    let length = match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if year < 1601 || !(1..=length).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some(days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// A number at the start of a token; what follows it must not be a digit.
fn number(token: &[u8], digits: std::ops::RangeInclusive<usize>) -> Option<i64> {
    let count = token.iter().take_while(|b| b.is_ascii_digit()).count();
    let value = || token[..count].iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    digits.contains(&count).then(value)
}

fn hms(token: &[u8]) -> Option<(i64, i64, i64)> {
    let mut parts = token.splitn(3, |b| *b == b':');
    let whole =
        |part: &[u8]| number(part, 1..=2).filter(|_| part.len() <= 2 && part.iter().all(u8::is_ascii_digit));
    let (hour, minute) = (whole(parts.next()?)?, whole(parts.next()?)?);
    Some((hour, minute, number(parts.next()?, 1..=2)?))
}

fn month_of(token: &[u8]) -> Option<i64> {
    const MONTHS: &[u8; 36] = b"janfebmaraprmayjunjulaugsepoctnovdec";
    let start = token.get(..3)?;
    let at = MONTHS.chunks(3).position(|name| start.eq_ignore_ascii_case(name))?;
    Some(at as i64 + 1)
}

/// Of the proleptic Gregorian calendar, for years from 1 on.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // Counted from 1 March of the year 0: the leap day is then the last of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_are_read_as_user_agents_do() {
        let cookie = |line: &'static str| SetCookie::parse(line.as_bytes());
        let plain = SetCookie { name: b"SID", value: b"31d4d96e407aad42", ..SetCookie::default() };
        assert_eq!(cookie("SID=31d4d96e407aad42"), Some(plain));
        assert_eq!(
            cookie("SID=31d4d96e407aad42; Path=/; Domain=example.com"),
            Some(SetCookie { path: Some(b"/"), domain: Some(b"example.com"), ..plain })
        );
        assert_eq!(
            cookie(" SID = 31d4d96e407aad42 ;secure;; HttpOnly ; DOMAIN = .Example.com;SameSite=Lax"),
            Some(SetCookie { secure: true, domain: Some(b"Example.com"), ..plain })
        );
        assert_eq!(
            cookie("lang=en-US; Expires=Wed, 09 Jun 2021 10:18:14 GMT").and_then(|c| c.expires_unix_s),
            Some(1_623_233_894)
        );
        let value = |line: &'static str| cookie(line).map(|c| (c.name, c.value));
        assert_eq!(value("a=b=c"), Some((&b"a"[..], &b"b=c"[..])));
        assert_eq!(value("a="), Some((&b"a"[..], &b""[..])));
        assert_eq!(value("a=\"q\""), Some((&b"a"[..], &b"\"q\""[..])));
        for ignored in ["", "a", "=a", " =a; Path=/", "a; b=c", "a=\u{1}b", "a=b\u{7f}"] {
            assert_eq!(cookie(ignored), None, "{ignored:?}");
        }
    }

    #[test]
    fn attributes_that_make_no_sense_are_left_out() {
        let cookie = |line: &'static str| SetCookie::parse(line.as_bytes()).expect("a cookie");
        assert_eq!(cookie("a=b; Max-Age=x; Expires=never; Path=there; Domain=").path, None);
        let strange = cookie("a=b; Max-Age=x; Expires=never; Path=there; Domain=; Domain=.; Secure=no");
        assert_eq!((strange.max_age_s, strange.expires_unix_s, strange.domain), (None, None, None));
        assert!(strange.secure);
        assert_eq!(cookie("a=b; max-age=-5").max_age_s, Some(-5));
        assert_eq!(cookie("a=b; max-age=99999999999999999999").max_age_s, Some(i64::MAX));
        assert_eq!(cookie("a=b; max-age=5; max-age=-").max_age_s, Some(5));
        assert_eq!(cookie("a=b; path=/x; path=/y").path, Some(&b"/y"[..]));
        assert_eq!(cookie("a=b; path=/x; path=").path, None);
    }

    #[test]
    fn dates_of_every_form_are_understood() {
        let at = 784_111_777;
        for date in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "06 november 1994 8:49:37",
            "1994 06 nov 08:49:37xyz",
        ] {
            assert_eq!(cookie_date(date.as_bytes()), Some(at), "{date}");
        }
        assert_eq!(cookie_date(b"Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(cookie_date(b"Thu, 01-Jan-1970 00:00:01 GMT"), Some(1));
        assert_eq!(cookie_date(b"Tue, 29 Feb 2000 00:00:00 GMT"), Some(951_782_400));
        assert_eq!(cookie_date(b"Fri, 31 Dec 9999 23:59:59 GMT"), Some(253_402_300_799));
        for bad in [
            "",
            "Sun, 06 Nov 1994",
            "Sun, 06 Nov 1600 08:49:37 GMT",
            "Sun, 29 Feb 1900 08:49:37 GMT",
            "Sun, 31 Apr 1994 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:60:00 GMT",
            "Sun, 06 Foo 1994 08:49:37 GMT",
            "Sun, 06 Nov 19945 08:49:37 GMT",
        ] {
            assert_eq!(cookie_date(bad.as_bytes()), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn days_agree_with_the_calendar(days in -134_774_i64..2_932_897) {
            // From 1601 to 9999: walked by the inverse of the formula (Hinnant, "civil_from_days").
            let z = days + 719_468;
            let era = z.div_euclid(146_097);
            let of_era = z.rem_euclid(146_097);
            let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
            let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
            let shifted = (5 * of_year + 2) / 153;
            let day = of_year - (153 * shifted + 2) / 5 + 1;
            let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
            let year = year_of_era + era * 400 + i64::from(month <= 2);
            prop_assert_eq!(days_since_1970(year, month, day), days);
        }

        #[test]
        fn any_bytes_can_be_read(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (SetCookie::parse(&line), cookie_date(&line));
        }

        #[test]
        fn lines_that_look_right_can_be_read(line in "[a-z=; ]{0,20}(; ?(Expires|Max-Age|Path|Domain)=[-0-9A-Za-z:/ ,.]{0,30}){0,4}") {
            if let Some(cookie) = SetCookie::parse(line.as_bytes()) {
                prop_assert!(!cookie.name.is_empty());
                prop_assert!(cookie.path.is_none_or(|p| p.starts_with(b"/")));
            }
        }
    }
}
