//! Which part of its load an engine carries out when several workers share a job.
use super::cursor::Node;
use super::{Job, MAX_THREADS, share};

/// One of several workers. Threads of all workers together are numbered as lanes: what has index k (an arrival, a user) belongs to
/// lane k modulo their number, and so to worker k modulo `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnPart {
    /// Which, from 0.
    pub worker: usize,
    /// How many there are.
    pub of: usize,
}

impl Default for OwnPart {
    /// That of an engine that is alone.
    fn default() -> Self {
        Self { worker: 0, of: 1 }
    }
}

impl OwnPart {
    /// Of so much that is dealt out one by one, what this worker gets.
    pub fn share(self, all: u64) -> u64 {
        share(all, self.worker, self.of)
    }

    /// Whether what has this index belongs to this worker.
    pub fn has(self, index: u64) -> bool {
        index % self.of as u64 == self.worker as u64
    }
}

impl Job {
    /// The part that is carried out; the whole where nothing was said.
    pub fn own_part(&self) -> OwnPart {
        self.part.unwrap_or_default()
    }

    /// Threads of all workers.
    pub fn lanes(&self) -> usize {
        self.threads * self.own_part().of
    }

    /// The number of a thread of this worker among all.
    pub fn lane(&self, thread: usize) -> usize {
        let part = self.own_part();
        thread * part.of + part.worker
    }
}

/// Reads `part`; `threads` are those of each worker.
pub fn read(node: &Node<'_>, threads: u64) -> Option<OwnPart> {
    let mut o = node.object()?;
    let of = o.required("of").and_then(|n| n.integer(1, MAX_THREADS));
    let worker = o.required("worker").and_then(|n| n.integer(0, of?.saturating_sub(1)));
    if let Some(all) = of.map(|of| of * threads).filter(|all| *all > MAX_THREADS) {
        o.problem_at("of", format!("{all} threads over all workers; at most {MAX_THREADS} are possible"));
    }
    o.finish();
    Some(OwnPart { worker: worker? as usize, of: of? as usize })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_dealt_out_to_workers_one_by_one() {
        let parts: Vec<_> = (0..3).map(|worker| OwnPart { worker, of: 3 }).collect();
        assert_eq!(parts.iter().map(|p| p.share(100)).collect::<Vec<_>>(), [34, 33, 33]);
        for k in 0..100 {
            assert_eq!(parts.iter().filter(|part| part.has(k)).count(), 1, "{k}");
            assert!(parts[k as usize % 3].has(k));
        }
        assert_eq!((OwnPart::default().share(7), OwnPart::default().has(6)), (7, true));
    }
}
