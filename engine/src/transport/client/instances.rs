//! Ids of instances: the configured ones first, then those that answers name.

/// Different names at most; an answer that names yet another is recorded as from the instance connected to.
pub const MAX_NAMES: usize = 8192;

/// Names by id.
#[derive(Debug, Default)]
pub struct Instances {
    names: Vec<Vec<u8>>,
    ids: std::collections::HashMap<Vec<u8>, u16>,
    last: u16,
    full: bool,
}

impl Instances {
    /// Those of the job, in their order.
    pub fn new<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let mut instances = Self::default();
        for name in names {
            instances.intern(name.as_bytes());
        }
        instances
    }

    /// Number of names known.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Id of a name; none if there are too many names.
    pub fn intern(&mut self, name: &[u8]) -> Option<u16> {
        // Most answers come from the instance that sent the last one.
        if self.names.get(usize::from(self.last)).is_some_and(|last| last == name) {
            return Some(self.last);
        }
        let id = if let Some(id) = self.ids.get(name) {
            *id
        } else {
            if self.names.len() >= MAX_NAMES {
                self.full = true;
                return None;
            }
            let id = self.names.len() as u16;
            self.names.push(name.to_vec());
            self.ids.insert(name.to_vec(), id);
            id
        };
        self.last = id;
        Some(id)
    }

    /// Whether a name had to be refused because there are too many.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// The names from this id on, as text.
    pub fn names_from(&self, first: usize) -> std::collections::BTreeMap<u16, String> {
        let text = |name: &Vec<u8>| String::from_utf8_lossy(name).into_owned();
        self.names.iter().enumerate().skip(first).map(|(id, name)| (id as u16, text(name))).collect()
    }
}
