//! Sorting more rows than fit into memory, without a temporary file.
//!
//! Rows in a log are nearly sorted: a row is written when its request ends, so it is out of place by at most the
//! duration of a request. A merge over what is in flight would be enough for most runs, but one request that hangs for
//! an hour would make it hold an hour of rows; an external sort writes everything twice and needs the disk that a long
//! run may just have filled. So the rows of each row group are *selected*: from the extents whose time span reaches into
//! the group, keep the first N rows after the last one written. Extents that lie wholly before or behind are not read.
//! Memory is N rows, whatever the order; in the usual case each extent is read once or twice, in the worst (completely
//! shuffled) once per row group.

use super::source::{Extent, Source, scheduled_us};
use crate::record::row::{ROW_BYTES, Row};
use std::cmp::Ordering;
use std::io;
use std::os::unix::fs::FileExt;

/// A row, and where it came from.
#[derive(Clone, Copy, Debug)]
pub struct Picked {
    /// The row.
    pub row: Row,
    /// Position among the rows of its log.
    position: u64,
    /// Its log, for its names.
    pub log: u8,
}

impl Picked {
    /// A total order, so that "all after the last one" is well defined for rows of the same time too.
    fn compare(&self, other: &Self) -> Ordering {
        let key = |p: &Self| {
            let r = &p.row;
            (r.scheduled_us, r.worker, r.user, r.iteration, r.step, r.attempt, p.log, p.position)
        };
        // The first part decides nearly always.
        self.row.scheduled_us.cmp(&other.row.scheduled_us).then_with(|| key(self).cmp(&key(other)))
    }
}

/// Gives all rows of a source in order, a group at a time.
pub struct Selector<'a> {
    source: &'a Source,
    /// What may still hold rows.
    extents: Vec<Extent>,
    group_rows: usize,
    picked: Vec<Picked>,
    last: Option<Picked>,
    payload: Vec<u8>,
}

impl<'a> Selector<'a> {
    /// Groups of `group_rows`; the last one may be smaller.
    pub fn new(source: &'a Source, group_rows: usize) -> Self {
        // A fifth more than a group, so that cutting back to a group is rare.
        let room =
            (group_rows + group_rows / 5 + 1).min(usize::try_from(source.rows()).unwrap_or(usize::MAX));
        Self {
            source,
            extents: source.extents.clone(),
            group_rows,
            picked: Vec::with_capacity(room),
            last: None,
            payload: Vec::new(),
        }
    }

    /// The next group, sorted; empty at the end.
    pub fn next_group(&mut self) -> io::Result<&[Picked]> {
        self.picked.clear();
        if let Some(last) = self.last {
            self.extents.retain(|extent| extent.max_us >= last.row.scheduled_us);
        }
        let mut bound: Option<Picked> = None;
        for i in 0..self.extents.len() {
            let extent = self.extents[i];
            if bound.is_some_and(|bound| extent.min_us > bound.row.scheduled_us) {
                break;
            }
            self.pick(&extent, &mut bound)?;
        }
        if self.picked.len() > self.group_rows {
            self.cut();
        }
        self.picked.sort_by(Picked::compare);
        self.last = self.picked.last().copied().or(self.last);
        Ok(&self.picked)
    }

    /// Takes those rows of an extent that belong to the group as far as is known.
    fn pick(&mut self, extent: &Extent, bound: &mut Option<Picked>) -> io::Result<()> {
        let bytes = extent.rows as usize * ROW_BYTES;
        self.payload.resize(bytes, 0);
        self.source.files[usize::from(extent.log)].read_exact_at(&mut self.payload, extent.offset)?;
        let payload = std::mem::take(&mut self.payload);
        let earliest = self.last.map_or(i64::MIN, |last| last.row.scheduled_us);
        for (i, encoded) in payload.as_chunks::<ROW_BYTES>().0.iter().enumerate() {
            let time = scheduled_us(encoded);
            let latest = bound.map_or(i64::MAX, |bound| bound.row.scheduled_us);
            if time < earliest || time > latest {
                continue;
            }
            let picked =
                Picked { row: Row::decode(encoded), position: extent.first_row + i as u64, log: extent.log };
            let is_after_last = self.last.is_none_or(|last| picked.compare(&last).is_gt());
            let is_before_bound = bound.is_none_or(|bound| picked.compare(&bound).is_lt());
            if is_after_last && is_before_bound {
                if self.picked.len() == self.picked.capacity() && self.picked.len() > self.group_rows {
                    *bound = Some(self.cut());
                }
                self.picked.push(picked);
            }
        }
        self.payload = payload;
        Ok(())
    }

    /// Keeps the first `group_rows`; returns the last of them, behind which nothing belongs to the group.
    fn cut(&mut self) -> Picked {
        let (_, last, _) = self.picked.select_nth_unstable_by(self.group_rows - 1, Picked::compare);
        let last = *last;
        self.picked.truncate(self.group_rows);
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::log::LogWriter;
    use proptest::prelude::*;

    /// Logs of these rows (time, user), in batches of a few.
    fn source(dir: &std::path::Path, logs: &[Vec<(i64, u32)>]) -> Source {
        for (thread, rows) in (0u8..).zip(logs) {
            let mut log = LogWriter::create(dir, thread).unwrap();
            for (i, &(scheduled_us, user)) in rows.iter().enumerate() {
                log.push(&Row { scheduled_us, user, ..Row::decode(&[0; ROW_BYTES]) }).unwrap();
                if i % 4 == 3 {
                    log.flush().unwrap();
                }
            }
            log.finish().unwrap();
        }
        Source::read(dir).unwrap()
    }

    fn select(source: &Source, group_rows: usize) -> Vec<(i64, u32, u8)> {
        let mut selector = Selector::new(source, group_rows);
        let mut all = Vec::new();
        loop {
            let group = selector.next_group().unwrap();
            assert!(group.len() <= group_rows);
            if group.is_empty() {
                return all;
            }
            all.extend(group.iter().map(|p| (p.row.scheduled_us, p.row.user, p.log)));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Any disorder and any number of equal rows, in groups much smaller than the whole.
        #[test]
        fn every_row_comes_once_in_order(
            logs in prop::collection::vec(prop::collection::vec((-3i64..12, 0u32..3), 0..40), 1..4),
            group_rows in 1usize..12,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let source = source(dir.path(), &logs);
            let mut expected: Vec<(i64, u32, u8)> = (0u8..)
                .zip(&logs)
                .flat_map(|(log, rows)| rows.iter().map(move |&(time, user)| (time, user, log)))
                .collect();
            expected.sort_unstable();
            prop_assert_eq!(select(&source, group_rows), expected);
        }
    }

    #[test]
    fn memory_is_a_group_whatever_the_order() {
        let dir = tempfile::tempdir().unwrap();
        let backwards: Vec<(i64, u32)> = (0..2000).rev().map(|t| (t, 0)).collect();
        let source = source(dir.path(), &[backwards]);
        let mut selector = Selector::new(&source, 100);
        let room = selector.picked.capacity();
        assert!(room <= 128);
        while !selector.next_group().unwrap().is_empty() {}
        assert_eq!(selector.picked.capacity(), room);
    }
}
