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
