//! The flat form of a journey.
use super::Message;
use crate::job::{Pause, StatusSet, Step};
use crate::rng::Rng;
use memchr::memmem::Finder;

/// One request, ready to be sent.
pub struct StepPlan {
    /// Id in the rows.
    pub id: u16,
    /// Index of the target.
    pub target: usize,
    /// Longest time from start to end.
    pub timeout_ns: u64,
    /// The pause after it.
    pub think: Option<Pause>,
    /// What is sent.
    pub message: Message,
    /// Its method is HEAD: an answer without a body.
    pub head: bool,
    /// It may be sent again on a fresh connection.
    pub idempotent: bool,
    /// Statuses of a good answer.
    pub status: StatusSet,
    /// What the body of a good answer holds.
    pub contains: Option<Finder<'static>>,
}

/// An operation of a program.
#[derive(Clone, Debug, PartialEq)]
enum Op {
    Request(usize),
    /// Cumulative weights, each with the operation to go on with.
    Choose(Vec<(f64, usize)>),
    Jump(usize),
}

/// The order of the steps of a journey.
#[derive(Clone, Debug, Default)]
pub struct Program(Vec<Op>);

impl Program {
    /// Lays the steps out; `place` is given every request in turn and names its index.
    pub(super) fn new(steps: &[Step], place: &mut impl FnMut(&crate::job::Request) -> usize) -> Self {
        let mut program = Self::default();
        program.lay(steps, place);
        program
    }

    fn lay(&mut self, steps: &[Step], place: &mut impl FnMut(&crate::job::Request) -> usize) {
        for step in steps {
            match step {
                Step::Request(request) => self.0.push(Op::Request(place(request))),
                Step::Choose(branches) => {
                    let choice = self.0.len();
                    self.0.push(Op::Choose(Vec::new()));
                    let (mut ways, mut ends, mut sum) = (Vec::new(), Vec::new(), 0.0);
                    for branch in branches {
                        sum += branch.weight;
                        ways.push((sum, self.0.len()));
                        self.lay(&branch.steps, place);
                        ends.push(self.0.len());
                        self.0.push(Op::Jump(0));
                    }
                    let after = self.0.len();
                    for end in ends {
                        self.0[end] = Op::Jump(after);
                    }
                    self.0[choice] = Op::Choose(ways);
                }
            }
        }
    }

    /// The next request at or after operation `at`, and the operation after it; none at the end of the iteration.
    pub fn next(&self, mut at: usize, rng: &mut Rng) -> Option<(usize, usize)> {
        loop {
            at = match self.0.get(at)? {
                Op::Request(step) => return Some((*step, at + 1)),
                Op::Jump(to) => *to,
                Op::Choose(ways) => {
                    let total = ways.last()?.0;
                    let point = rng.unit() * total;
                    // A branch of weight 0 ends where it begins and is never met.
                    ways.iter().find(|(sum, _)| point < *sum).or(ways.last())?.1
                }
            };
        }
    }

    /// Whether no request follows operation `at` for certain: then the pause after a step is one between iterations.
    pub fn ends_at(&self, mut at: usize) -> bool {
        loop {
            at = match self.0.get(at) {
                None => return true,
                Some(Op::Jump(to)) => *to,
                Some(_) => return false,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Branch, Expect, Request};

    fn request(name: &str) -> Step {
        Step::Request(Box::new(Request {
            name: name.into(),
            method: "GET".into(),
            target: 0,
            path: "/".into(),
            headers: Vec::new(),
            body: None,
            timeout_us: None,
            expect: Expect { status: StatusSet::default(), contains: None },
            think: None,
            at: String::new(),
        }))
    }

    fn walk(program: &Program, rng: &mut Rng) -> Vec<usize> {
        let (mut at, mut walk) = (0, Vec::new());
        while let Some((step, next)) = program.next(at, rng) {
            walk.push(step);
            at = next;
        }
        walk
    }

    fn branch(weight: f64, steps: Vec<Step>) -> Branch {
        Branch { weight, steps }
    }

    /// a, then (b c : d : (e : f)) by 3 : 1 : 2, then g.
    fn example() -> Program {
        let inner = Step::Choose(vec![branch(1.0, vec![request("e")]), branch(0.0, vec![request("f")])]);
        let choice = Step::Choose(vec![
            branch(3.0, vec![request("b"), request("c")]),
            branch(1.0, vec![request("d")]),
            branch(2.0, vec![inner]),
        ]);
        let mut count = 0;
        Program::new(&[request("a"), choice, request("g")], &mut |_| {
            count += 1;
            count - 1
        })
    }

    #[test]
    fn branches_come_in_the_proportion_of_their_weights() {
        let (program, mut rng) = (example(), Rng::from_parts(&[5]));
        let n = 60_000;
        let mut seen = [0_u32; 3];
        for _ in 0..n {
            match walk(&program, &mut rng)[..] {
                [0, 1, 2, 6] => seen[0] += 1,
                [0, 3, 6] => seen[1] += 1,
                [0, 4, 6] => seen[2] += 1,
                ref other => panic!("an impossible walk: {other:?}"),
            }
        }
        let expected = [0.5, 1.0 / 6.0, 1.0 / 3.0].map(|share| share * f64::from(n));
        let chi2: f64 = seen.iter().zip(expected).map(|(s, e)| (f64::from(*s) - e).powi(2) / e).sum();
        assert!(chi2 < 13.8, "chi² = {chi2}, the 0.1 % point for 2 degrees of freedom is 13.8");
    }

    #[test]
    fn the_end_is_seen_through_jumps() {
        let program = Program::new(
            &[Step::Choose(vec![branch(1.0, vec![request("a")]), branch(1.0, vec![request("b")])])],
            &mut |_| 0,
        );
        assert!(program.ends_at(2) && program.ends_at(program.0.len()) && !program.ends_at(0));
    }
}
