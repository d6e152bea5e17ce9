//! The flat form of a journey.
use super::template::{Frame, Text};
use crate::job::{Pause, Request, Step};

/// Operations in a row without a request or a pause, before others get their turn.
const OPS_IN_A_ROW: u32 = 1_000;
/// A session remembers what it has done once with a bit each.
pub const MAX_ONCE: u16 = 64;

/// An operation of a program.
#[derive(Clone, Debug)]
enum Op {
    Request(usize),
    Pause(Pause),
    /// Cumulative weights, each with the operation to go on with.
    Choose(Vec<(f64, usize)>),
    Jump(usize),
    /// Goes on elsewhere unless a condition holds.
    Unless(Text, usize),
    /// Goes on elsewhere if this was done before.
    Once(u16, usize),
    /// From now on it was done; if not, the iteration ends.
    Done(u16),
    /// Begins so many rounds, or goes on elsewhere if it is none.
    Rounds(usize, (u32, u32), usize),
    /// Begins the next round, if one is left.
    Again(usize, usize),
}

/// The order of the steps of a journey.
#[derive(Clone, Debug, Default)]
pub struct Program {
    ops: Vec<Op>,
    rounds: usize,
    onces: u16,
}

/// What the steps of a journey are compiled by.
pub trait Place {
    /// Takes a request in and gives its index.
    fn request(&mut self, request: &Request) -> usize;

    /// Compiles a condition; `at` is where its step stands.
    fn condition(&mut self, source: &str, at: &str) -> Text;
}

/// Where an iteration is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Walk {
    at: usize,
    /// Groups of kind `once` that the iteration is in, a bit each.
    inside: u64,
    /// Those of them of which a request was not answered as expected.
    spoilt: u64,
}

/// What comes next in an iteration.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// A request, by its index.
    Request(usize),
    /// A pause.
    Pause(Pause),
    /// Nothing yet: others should have their turn.
    Yield,
    /// The condition could not be told, for this reason; it was taken for false.
    Unclear(String),
    /// The iteration is over.
    End,
}

impl Walk {
    /// Before the first step.
    pub fn new() -> Self {
        Self::default()
    }

    /// A request has ended: not as expected, no group that it is in was done well.
    pub fn note(&mut self, good: bool) {
        if !good {
            self.spoilt |= self.inside;
        }
    }
}

impl Program {
    /// Lays the steps out.
    pub(super) fn new(steps: &[Step], place: &mut impl Place) -> Self {
        let mut program = Self::default();
        program.lay(steps, place);
        program
    }

    /// Steps of kind `once`.
    pub fn onces(&self) -> u16 {
        self.onces
    }

    fn lay(&mut self, steps: &[Step], place: &mut impl Place) {
        for step in steps {
            match step {
                Step::Request(request) => self.ops.push(Op::Request(place.request(request))),
                Step::Pause(pause) => self.ops.push(Op::Pause(*pause)),
                Step::Sequence(steps) => self.lay(steps, place),
                Step::Choose(branches) => self.lay_choice(branches, place),
                Step::Once(steps) => {
                    let once = self.onces;
                    self.onces += 1;
                    let start = self.later();
                    self.lay(steps, place);
                    self.ops.push(Op::Done(once));
                    self.ops[start] = Op::Once(once, self.ops.len());
                }
                Step::Repeat(repeat) => {
                    let slot = self.rounds;
                    self.rounds += 1;
                    let start = self.later();
                    self.lay(&repeat.steps, place);
                    self.ops.push(Op::Again(slot, start + 1));
                    self.ops[start] = Op::Rounds(slot, repeat.times, self.ops.len());
                }
                Step::If(condition) => {
                    let text = place.condition(&condition.condition, &condition.at);
                    let start = self.later();
                    self.lay(&condition.steps, place);
                    let end = self.later();
                    self.ops[start] = Op::Unless(text, self.ops.len());
                    self.lay(&condition.otherwise, place);
                    self.ops[end] = Op::Jump(self.ops.len());
                }
            }
        }
    }

    fn lay_choice(&mut self, branches: &[crate::job::Branch], place: &mut impl Place) {
        let choice = self.later();
        let (mut ways, mut ends, mut sum) = (Vec::new(), Vec::new(), 0.0);
        for branch in branches {
            sum += branch.weight;
            ways.push((sum, self.ops.len()));
            self.lay(&branch.steps, place);
            ends.push(self.later());
        }
        for end in ends {
            self.ops[end] = Op::Jump(self.ops.len());
        }
        self.ops[choice] = Op::Choose(ways);
    }

    /// A place for an operation that needs to know what comes after it.
    fn later(&mut self) -> usize {
        self.ops.push(Op::Jump(usize::MAX));
        self.ops.len() - 1
    }

    /// Goes on to the next request or pause.
    pub fn next(&self, walk: &mut Walk, frame: &mut Frame<'_>) -> Act {
        for _ in 0..OPS_IN_A_ROW {
            let Some(op) = self.ops.get(walk.at) else { return Act::End };
            walk.at += 1;
            match op {
                Op::Request(step) => return Act::Request(*step),
                Op::Pause(pause) => return Act::Pause(*pause),
                Op::Jump(to) => walk.at = *to,
                Op::Choose(ways) => {
                    let total = ways.last().map_or(0.0, |(sum, _)| *sum);
                    let point = frame.rng.unit() * total;
                    // A branch of weight 0 ends where it begins and is never met.
                    let way = ways.iter().find(|(sum, _)| point < *sum).or(ways.last());
                    walk.at = way.map_or(walk.at, |(_, to)| *to);
                }
                Op::Unless(condition, otherwise) => match condition.holds(frame) {
                    Ok(true) => {}
                    Ok(false) => walk.at = *otherwise,
                    Err(message) => {
                        walk.at = *otherwise;
                        return Act::Unclear(message);
                    }
                },
                Op::Once(once, after) => {
                    if frame.session.done >> once & 1 == 1 {
                        walk.at = *after;
                    } else {
                        walk.inside |= 1 << once;
                        walk.spoilt &= !(1 << once);
                    }
                }
                Op::Done(once) => {
                    walk.inside &= !(1 << once);
                    if walk.spoilt >> once & 1 == 1 {
                        walk.at = self.ops.len();
                        return Act::End;
                    }
                    frame.session.done |= 1 << once;
                }
                Op::Rounds(slot, (least, most), after) => {
                    let more = if least == most { 0 } else { frame.rng.below(u64::from(most - least) + 1) };
                    let count = least + more as u32;
                    if count == 0 {
                        walk.at = *after;
                    } else {
                        frame.session.rounds.resize(self.rounds, 0);
                        frame.session.rounds[*slot] = count;
                    }
                }
                Op::Again(slot, start) => {
                    let left = &mut frame.session.rounds[*slot];
                    *left = left.saturating_sub(1);
                    if *left > 0 {
                        walk.at = *start;
                    }
                }
            }
        }
        Act::Yield
    }

    /// Whether nothing follows for certain: then the pause after a step is one between iterations.
    pub fn ends_at(&self, walk: &Walk) -> bool {
        let mut at = walk.at;
        loop {
            at = match self.ops.get(at) {
                None => return true,
                Some(Op::Jump(to)) => *to,
                Some(Op::Done(_)) => at + 1,
                Some(_) => return false,
            };
        }
    }
}
