//! Due times of tasks, with lazy deletion.
use super::TaskId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// At most one time per task.
///
/// Setting a later time than the one that is in the heap does not touch the heap: the entry is renewed when it comes up.
/// So a timeout that is set for every request, and nearly never reached, costs one push per timeout and task and
/// nothing per request.
#[derive(Default)]
pub struct LazyHeap {
    heap: BinaryHeap<Reverse<(u64, TaskId)>>,
    slots: Vec<Slot>,
}

#[derive(Clone, Copy)]
struct Slot {
    /// When the task wants to be woken; `u64::MAX` = not at all.
    wanted: u64,
    /// The earliest entry of the task in the heap; later ones are leftovers.
    armed: u64,
}

const IDLE: Slot = Slot { wanted: u64::MAX, armed: u64::MAX };

impl LazyHeap {
    pub fn set(&mut self, task: TaskId, at: u64) {
        let index = task as usize;
        if index >= self.slots.len() {
            self.slots.resize(index + 1, IDLE);
        }
        let slot = &mut self.slots[index];
        slot.wanted = at;
        if at < slot.armed {
            slot.armed = at;
            self.heap.push(Reverse((at, task)));
        }
    }

    pub fn clear(&mut self, task: TaskId) {
        if let Some(slot) = self.slots.get_mut(task as usize) {
            slot.wanted = u64::MAX;
        }
    }

    /// The task has ended; its leftovers in the heap will be skipped.
    pub fn forget(&mut self, task: TaskId) {
        if let Some(slot) = self.slots.get_mut(task as usize) {
            *slot = IDLE;
        }
    }

    /// The next time at which something may be due; `u64::MAX` if never.
    pub fn next(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |Reverse((at, _))| *at)
    }

    /// Calls `wake` for every task whose time has come, in the order of their times.
    pub fn fire(&mut self, now: u64, mut wake: impl FnMut(TaskId)) {
        while let Some(Reverse((at, task))) = self.heap.peek().copied() {
            if at > now {
                return;
            }
            self.heap.pop();
            let slot = &mut self.slots[task as usize];
            if slot.armed != at {
                continue;
            }
            slot.armed = u64::MAX;
            if slot.wanted <= now {
                slot.wanted = u64::MAX;
                wake(task);
            } else if slot.wanted < u64::MAX {
                let wanted = slot.wanted;
                self.set(task, wanted);
            }
        }
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.heap.len()
    }
}
