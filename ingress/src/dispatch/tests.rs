//! Decisions without a clock and a network; waiters are numbers.

use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn dispatch() -> Dispatch<u32> {
    Dispatch::new(fastrand::Rng::with_seed(1), 0)
}

fn add(
    dispatch: &mut Dispatch<u32>,
    name: &str,
    concurrency: u64,
    probe: Option<Probe>,
    now_ns: u64,
) -> Option<ProbeTask> {
    let address = "127.0.0.1:80".parse().unwrap();
    dispatch.add(Added { name: name.to_owned(), address, concurrency, probe }, now_ns).unwrap()
}

fn go(dispatch: &mut Dispatch<u32>, now_ns: u64) -> Grant {
    match dispatch.arrive(now_ns, || unreachable!()) {
        Arrival::Go(grant) => grant,
        other => panic!("{other:?}"),
    }
}

fn hold(dispatch: &mut Dispatch<u32>, waiter: u32, now_ns: u64) -> Ticket {
    match dispatch.arrive(now_ns, || waiter) {
        Arrival::Held(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

fn refused(dispatch: &mut Dispatch<u32>, now_ns: u64) -> Refusal {
    match dispatch.arrive(now_ns, || unreachable!()) {
        Arrival::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

/// Who was woken, with the instance that each got.
fn woken(dispatch: &mut Dispatch<u32>) -> Vec<(u32, String)> {
    let all = dispatch.take_woken().into_iter();
    all.map(|(waiter, verdict)| {
        (waiter, verdict.map_or_else(|r| r.made.name().to_owned(), |g| g.instance.to_string()))
    })
    .collect()
}

/// The names of what happened.
fn told(dispatch: &mut Dispatch<u32>) -> Vec<String> {
    let events = dispatch.take_events().into_iter();
    events.map(|event| serde_json::to_value(event).unwrap()["event"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_is_held_goes_in_the_order_in_which_it_came_when_an_instance_is_ready() {
    let mut d = dispatch();
    for n in 0..3 {
        hold(&mut d, n, u64::from(n) * MS);
    }
    let task = add(&mut d, "a", 2, Some(Probe::default()), 5 * MS).unwrap();
    assert!(woken(&mut d).is_empty(), "it is only starting");
    d.become_ready(task.id, 3, 9 * MS);
    assert_eq!(woken(&mut d), [(0, "a".to_owned()), (1, "a".to_owned())]);
    d.end(task.id, Outcome::Answered(200), 10 * MS);
    assert_eq!(woken(&mut d), [(2, "a".to_owned())]);
}

#[test]
fn nobody_overtakes_those_that_are_held() {
    let mut d = dispatch();
    add(&mut d, "a", 1, None, 0);
    let grant = go(&mut d, 0);
    hold(&mut d, 1, MS);
    hold(&mut d, 2, 2 * MS);
    d.end(grant.id, Outcome::Answered(200), 3 * MS);
    assert_eq!(woken(&mut d), [(1, "a".to_owned())]);
    hold(&mut d, 3, 3 * MS);
    d.end(grant.id, Outcome::Answered(200), 4 * MS);
    assert_eq!(woken(&mut d), [(2, "a".to_owned())]);
}

#[test]
fn a_request_is_cold_only_if_it_came_before_its_instance_was_ready() {
    let mut d = dispatch();
    hold(&mut d, 0, MS);
    let task = add(&mut d, "a", 1, Some(Probe::default()), 2 * MS).unwrap();
    d.become_ready(task.id, 1, 3 * MS);
    let (_, first) = d.take_woken().remove(0);
    let first = first.unwrap();
    assert!(first.cold);
    assert_eq!(first.held_ns, 2 * MS);
    hold(&mut d, 1, 4 * MS);
    d.end(task.id, Outcome::Answered(200), 5 * MS);
    let (_, second) = d.take_woken().remove(0);
    assert!(!second.unwrap().cold, "it waited for room, not for a start");
}

#[test]
fn bounds_refuse_the_next_and_say_which_they_are() {
    let mut d = dispatch();
    d.change(&Change { pending: Some(Some(2)), pending_per_instance: Some(Some(1)), ..Change::default() });
    hold(&mut d, 0, 0);
    hold(&mut d, 1, 0);
    assert_eq!(refused(&mut d, 0).made, Made::Pending);
    let mut d = dispatch();
    d.change(&Change { pending_per_instance: Some(Some(1)), ..Change::default() });
    add(&mut d, "a", 1, None, 0);
    go(&mut d, 0);
    hold(&mut d, 0, 0);
    assert_eq!(refused(&mut d, 0).made, Made::Queue);
    let stats = d.take_stats(MS);
    assert_eq!((stats.arrivals, stats.made["queue"], stats.held, stats.in_flight), (3, 1, 1, 1));
}

#[test]
fn the_rules_of_openwhisk_count_held_and_running_requests() {
    let mut d = dispatch();
    d.change(&Change {
        concurrent_invocations: Some(Some(2)),
        invocations_per_minute: Some(Some(4)),
        ..Change::default()
    });
    add(&mut d, "a", 1, None, 0);
    let grant = go(&mut d, 0);
    hold(&mut d, 0, 0);
    assert_eq!(refused(&mut d, 0).text, "Too many concurrent requests in flight (count: 2, allowed: 2).");
    d.end(grant.id, Outcome::Answered(200), MS);
    hold(&mut d, 1, MS);
    assert_eq!(refused(&mut d, MS).text, "Too many requests in the last minute (count: 5, allowed: 4).");
}

#[test]
fn capacity_is_wanted_at_once_without_an_instance_and_now_and_then_with_full_ones() {
    let mut d = dispatch();
    let ticket = hold(&mut d, 0, 0);
    hold(&mut d, 1, 0);
    assert_eq!(told(&mut d), ["wanted"], "the second is no news");
    let task = add(&mut d, "a", 1, Some(Probe::default()), MS).unwrap();
    d.become_ready(task.id, 1, MS);
    assert_eq!(told(&mut d), ["instance_ready", "first_request"]);
    assert!(!d.give_up(ticket, Outcome::LeftHeld, MS), "it is at the instance");
    hold(&mut d, 2, 2 * MS);
    assert_eq!(told(&mut d), [""; 0], "told 2 ms ago");
    hold(&mut d, 3, 100 * MS);
    assert_eq!(told(&mut d), ["wanted"]);
    d.remove("a", 101 * MS).unwrap();
    assert_eq!(told(&mut d), ["removed", "wanted"], "the last one went");
}

#[test]
fn a_drained_instance_gets_nothing_new_and_is_told_empty_with_its_last_request() {
    let mut d = dispatch();
    add(&mut d, "a", 0, None, 0);
    let grant = go(&mut d, 0);
    d.drain("a", MS).unwrap();
    hold(&mut d, 0, 2 * MS);
    told(&mut d);
    d.end(grant.id, Outcome::Answered(200), 3 * MS);
    assert_eq!(told(&mut d), ["drained"]);
    assert!(woken(&mut d).is_empty());
    d.drain("a", 4 * MS).unwrap();
    assert_eq!(told(&mut d), [""; 0], "once is enough");
    add(&mut d, "b", 0, None, 5 * MS);
    assert_eq!(woken(&mut d), [(0, "b".to_owned())]);
    assert!(d.drain("c", 6 * MS).unwrap_err().contains("\"c\""));
}

#[test]
fn an_instance_that_refuses_a_connection_gets_nothing_until_its_probe_is_answered() {
    let mut d = dispatch();
    add(&mut d, "a", 0, None, 0);
    let grant = go(&mut d, 0);
    let task = d.refused(grant.id, "no".to_owned(), MS).unwrap();
    assert_eq!(d.refused(grant.id, "no".to_owned(), MS), None, "one probe is enough");
    d.end(grant.id, Outcome::Made(Made::Refused), MS);
    hold(&mut d, 0, 2 * MS);
    d.become_ready(task.id, 5, 3 * MS);
    let (_, grant) = d.take_woken().remove(0);
    assert!(!grant.unwrap().cold, "it had been ready before");
    let stats = d.take_stats(4 * MS);
    assert_eq!(
        (stats.made["refused"], stats.instances["a"].refused, stats.instances["a"].requests),
        (1, 1, 2)
    );
}

#[test]
fn an_instance_that_never_gets_ready_is_given_up_and_takes_nothing() {
    let mut d = dispatch();
    let task = add(&mut d, "a", 0, Some(Probe::default()), 0).unwrap();
    hold(&mut d, 0, 0);
    d.gave_up(task.id, 40, "no".to_owned(), MS);
    assert!(!d.is_starting(task.id));
    d.become_ready(task.id, 41, MS);
    assert!(woken(&mut d).is_empty(), "too late");
    assert_eq!(told(&mut d), ["wanted", "gave_up"]);
}

#[test]
fn concurrency_is_the_area_under_held_and_running_requests() {
    let mut d = dispatch();
    add(&mut d, "a", 1, None, 0);
    let grant = go(&mut d, 0); // in flight 0–60
    hold(&mut d, 0, 20 * MS); // held 20–60, in flight from 60
    d.end(grant.id, Outcome::Answered(200), 60 * MS);
    let stats = d.take_stats(100 * MS);
    // (60 + 40 + 40) / 100
    assert!((stats.concurrency - 1.4).abs() < 1e-9, "{stats:?}");
    assert!((stats.held_concurrency - 0.4).abs() < 1e-9, "{stats:?}");
    assert!((stats.instances["a"].concurrency - 1.0).abs() < 1e-9, "{stats:?}");
    assert_eq!((stats.from_ns, stats.to_ns, stats.held_total), (0, 100 * MS, 1));
}

#[test]
fn at_the_end_those_that_are_held_are_told() {
    let mut d = dispatch();
    hold(&mut d, 0, 0);
    d.begin_end(MS);
    assert_eq!(woken(&mut d), [(0, "ending".to_owned())]);
    assert_eq!(refused(&mut d, MS).made, Made::Ending);
    assert_eq!(d.under_way(), 0);
}

/// What may happen, with a number that says to whom.
#[derive(Clone, Copy, Debug)]
enum Step {
    Arrive,
    End(usize),
    Leave(usize),
    Add(u64),
    Ready(usize),
    Refuse(usize),
    Drain(usize),
    Remove(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let n = || 0..8usize;
    let step = prop_oneof![
        6 => Just(Step::Arrive),
        4 => n().prop_map(Step::End),
        1 => n().prop_map(Step::Leave),
        1 => (0..4u64).prop_map(Step::Add),
        2 => n().prop_map(Step::Ready),
        1 => n().prop_map(Step::Refuse),
        1 => n().prop_map(Step::Drain),
        1 => n().prop_map(Step::Remove),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    /// Each request ends exactly once; no instance has more than its limit; nothing is held while something could take it.
    #[test]
    fn whatever_happens_every_request_is_counted_once_and_no_limit_is_broken(steps in steps()) {
        let mut d = dispatch();
        d.change(&Change { pending: Some(Some(20)), pending_per_instance: Some(Some(3)), ..Change::default() });
        let mut held: BTreeMap<u32, Ticket> = BTreeMap::new();
        let mut at: Vec<u64> = Vec::new();
        let mut starting: Vec<u64> = Vec::new();
        let mut names: Vec<String> = Vec::new();
        let mut concurrency: BTreeMap<u64, u64> = BTreeMap::new();
        let (mut arrivals, mut ended, mut order) = (0, 0, Vec::new());
        for (now_ns, step) in (1..).zip(steps) {
            match step {
                Step::Arrive => {
                    arrivals += 1;
                    match d.arrive(now_ns, || arrivals) {
                        Arrival::Go(grant) => at.push(grant.id),
                        Arrival::Held(ticket) => drop(held.insert(arrivals, ticket)),
                        Arrival::Refused(_) => ended += 1,
                    }
                }
                Step::End(n) if !at.is_empty() => {
                    ended += 1;
                    let id = at.swap_remove(n % at.len());
                    d.end(id, Outcome::Answered(200), now_ns);
                }
                Step::Leave(n) if !held.is_empty() => {
                    let waiter = *held.keys().nth(n % held.len()).unwrap();
                    ended += 1;
                    prop_assert!(d.give_up(held.remove(&waiter).unwrap(), Outcome::LeftHeld, now_ns));
                }
                Step::Add(limit) => {
                    let name = format!("i{now_ns}");
                    let task = add(&mut d, &name, limit, Some(Probe::default()), now_ns).unwrap();
                    concurrency.insert(task.id, limit);
                    starting.push(task.id);
                    names.push(name);
                }
                Step::Ready(n) if !starting.is_empty() => d.become_ready(starting[n % starting.len()], 1, now_ns),
                Step::Refuse(n) if !at.is_empty() => drop(d.refused(at[n % at.len()], String::new(), now_ns)),
                Step::Drain(n) if !names.is_empty() => d.drain(&names[n % names.len()], now_ns).unwrap(),
                Step::Remove(n) if !names.is_empty() => d.remove(&names.swap_remove(n % names.len()), now_ns).unwrap(),
                _ => {}
            }
            for (waiter, verdict) in d.take_woken() {
                prop_assert!(held.remove(&waiter).is_some());
                order.push(waiter);
                at.push(verdict.unwrap().id);
            }
            let room = d.instances.ready().any(|one| one.candidate().has_room());
            prop_assert!(held.is_empty() || !room, "held while {:?} could take it", d.instances);
            for (id, limit) in &concurrency {
                let in_flight = at.iter().filter(|one| *one == id).count() as u64;
                prop_assert!(*limit == 0 || in_flight <= *limit);
            }
        }
        prop_assert!(order.is_sorted(), "{order:?}");
        let stats = d.take_stats(1_000_000);
        let made: u64 = stats.made.values().sum();
        let answered: u64 = stats.answered.values().sum();
        prop_assert_eq!(stats.arrivals, u64::from(arrivals));
        prop_assert_eq!(answered + made + stats.left.held, ended);
        prop_assert_eq!((stats.held, stats.in_flight), (held.len() as u64, at.len() as u64));
        prop_assert_eq!(stats.arrivals, ended + stats.held + stats.in_flight);
    }
}
