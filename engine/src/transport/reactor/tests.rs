use super::*;
use std::rc::Rc;

fn reactor(clock: Clock) -> Rc<Reactor> {
    Rc::new(Reactor::new(clock).expect("epoll"))
}

#[test]
fn sleeps_end_in_their_order_and_take_no_time_on_a_virtual_clock() {
    let rt = reactor(Clock::virtual_at(1000));
    let log = Rc::new(RefCell::new(Vec::new()));
    for at in [5_000_000_000_000_u64, 2000, 3_000_000_000] {
        let (rt2, log) = (Rc::clone(&rt), Rc::clone(&log));
        rt.spawn(async move {
            assert_eq!(rt2.sleep_until(at).await, Wait::Expired);
            log.borrow_mut().push((at, rt2.now()));
        });
    }
    rt.run(|| log.borrow().len() == 3).expect("run");
    let expected = [2000, 3_000_000_000, 5_000_000_000_000].map(|at| (at, at));
    assert_eq!(*log.borrow(), expected);
}

#[test]
fn a_real_sleep_is_precise() {
    let rt = reactor(Clock::Monotonic);
    let done = Rc::new(Cell::new(0_u64));
    let (rt2, done2) = (Rc::clone(&rt), Rc::clone(&done));
    rt.spawn(async move {
        let mut least = u64::MAX;
        for _ in 0..20 {
            let at = rt2.now() + 3_300_000;
            rt2.sleep_until(at).await;
            let late = rt2.now().checked_sub(at).expect("never early");
            least = least.min(late);
        }
        done2.set(least.max(1));
    });
    rt.run(|| done.get() > 0).expect("run");
    // The best of twenty, so that a busy machine does not matter.
    assert!(done.get() < 300_000, "late by {} ns at best", done.get());
}

#[test]
fn a_cut_ends_every_wait() {
    let rt = reactor(Clock::virtual_at(0));
    let ended = Rc::new(Cell::new(0));
    for _ in 0..10 {
        let (rt2, ended) = (Rc::clone(&rt), Rc::clone(&ended));
        rt.spawn(async move {
            assert_eq!(rt2.until(u64::MAX, || false).await, Wait::Cut);
            ended.set(ended.get() + 1);
        });
    }
    let rt2 = Rc::clone(&rt);
    rt.spawn(async move {
        rt2.sleep_until(1_000_000).await;
        rt2.cut();
    });
    rt.run(|| ended.get() == 10).expect("run");
}

#[test]
fn deadlines_that_move_on_leave_one_entry() {
    let mut heap = LazyHeap::default();
    for now in 0..1000 {
        heap.set(3, now + 5000);
    }
    assert_eq!(heap.len(), 1);
    let mut woken = Vec::new();
    heap.fire(5500, |task| woken.push(task));
    assert!(woken.is_empty(), "the deadline had moved to 5999");
    heap.fire(5999, |task| woken.push(task));
    assert_eq!(woken, [3]);
    heap.set(3, 7000);
    heap.set(3, 6500);
    heap.clear(3);
    heap.fire(8000, |task| woken.push(task));
    assert_eq!((woken.len(), heap.next()), (1, u64::MAX));
}

/// What a wait gives whose answer came in time, while the loop was away beyond its deadline and a sleep.
fn answered_while_away(wait: impl AsyncFn(Rc<Reactor>, Rc<Bell>, u64) -> Wait + 'static) -> Wait {
    let rt = reactor(Clock::Monotonic);
    let bell = Rc::new(Bell::new().expect("eventfd"));
    let (end, at_ns) = (Rc::new(Cell::new(None)), rt.now() + 10_000_000);
    let (rt2, bell2, end2) = (Rc::clone(&rt), Rc::clone(&bell), Rc::clone(&end));
    rt.spawn(async move { end2.set(Some(wait(rt2, bell2, at_ns).await)) });
    // A sleep that is over when the loop comes back lets it look at its timers before it asks for events.
    let rt2 = Rc::clone(&rt);
    rt.spawn(async move {
        rt2.sleep_until(at_ns).await;
    });
    let rt2 = Rc::clone(&rt);
    rt.spawn(async move {
        rt2.sleep_until(at_ns - 8_000_000).await;
        bell.ring();
        std::thread::sleep(std::time::Duration::from_millis(60));
        rt2.now();
    });
    rt.run(|| end.get().is_some()).expect("run");
    end.get().expect("it has ended")
}

#[test]
fn an_answer_that_came_while_the_loop_was_away_is_no_timeout() {
    let end = answered_while_away(async |rt, bell, at_ns| {
        let id = bell.register(&rt).expect("epoll");
        rt.socket(id, Interest::Read, at_ns).await
    });
    assert_eq!(end, Wait::Ready);
}

#[test]
fn nor_is_one_that_another_task_reads() {
    let end = answered_while_away(async |rt, bell, at_ns| {
        let (read, me) = (Rc::new(Cell::new(false)), rt.current());
        let (rt2, read2) = (Rc::clone(&rt), Rc::clone(&read));
        rt.spawn(async move {
            let id = bell.register(&rt2).expect("epoll");
            read2.set(bell.heard(&rt2, id).await == Wait::Ready);
            rt2.wake(me);
        });
        rt.until(at_ns, || read.get()).await
    });
    assert_eq!(end, Wait::Ready);
}

/// Sleeps 300 µs twenty times, and gives how long the reactor spun.
fn spun_in_short_sleeps(below_ns: u64) -> u64 {
    let rt = reactor(Clock::Monotonic);
    rt.spin_below(below_ns);
    let done = Rc::new(Cell::new(false));
    let (rt2, done2) = (Rc::clone(&rt), Rc::clone(&done));
    rt.spawn(async move {
        for _ in 0..20 {
            let at = rt2.now() + 300_000;
            assert_eq!(rt2.sleep_until(at).await, Wait::Expired);
            assert!(rt2.now() >= at, "never early");
        }
        done2.set(true);
    });
    rt.run(|| done.get()).expect("run");
    rt.spun_ns()
}

#[test]
fn waits_below_a_bound_are_spun_and_no_others() {
    assert_eq!(spun_in_short_sleeps(0), 0);
    let all = spun_in_short_sleeps(1_000_000);
    // Nothing else happened; only what a task itself took is not in it.
    assert!((3_000_000..60_000_000_000).contains(&all), "{all} ns of 6 ms");
}

#[test]
fn a_bell_is_heard_while_spinning() {
    let rt = reactor(Clock::Monotonic);
    rt.spin_below(u64::MAX);
    let bell = std::sync::Arc::new(Bell::new().expect("eventfd"));
    let id = bell.register(&rt).expect("register");
    let heard = Rc::new(Cell::new(false));
    let (rt2, bell2, heard2) = (Rc::clone(&rt), std::sync::Arc::clone(&bell), Rc::clone(&heard));
    rt.spawn(async move {
        // Edge-triggered: a socket without a byte says first that it can be written.
        heard2.set(bell2.heard(&rt2, id).await == Wait::Ready);
    });
    let rt3 = Rc::clone(&rt);
    rt.spawn(async move {
        rt3.sleep_until(rt3.now() + 60_000_000_000).await;
    });
    let ringer = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        bell.ring();
    });
    rt.run(|| heard.get()).expect("run");
    ringer.join().expect("ringer");
    assert!(rt.spun_ns() > 0);
}
