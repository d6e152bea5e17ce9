//! io_uring at its best for this: one issuer, deferred task work, registered files, and either a send linked to a receive,
//! or one multishot receive a connection into a ring of provided buffers. Successful sends make no completion.
use crate::{Bench, REQUEST};
use io_uring::types::{BufRingEntry, Fixed};
use io_uring::{IoUring, cqueue, opcode, squeue};
use std::alloc::{Layout, alloc_zeroed};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Instant;

const BUFFERS: u16 = 256;
const BUFFER_BYTES: usize = 2048;
const GROUP: u16 = 0;
/// Marks completions of sends, which come only when one fails.
const SEND: u64 = 1 << 32;

/// Provided buffers, in a ring that the kernel takes them from.
struct Buffers {
    ring: *mut BufRingEntry,
    memory: Vec<u8>,
    tail: u16,
}

impl Buffers {
    fn register(io: &IoUring) -> io::Result<Self> {
        let layout = Layout::from_size_align(usize::from(BUFFERS) * size_of::<BufRingEntry>(), 4096);
        // SAFETY: the layout is not empty; the ring is never freed, so it outlives its registration.
        let ring = unsafe { alloc_zeroed(layout.expect("a valid layout")) }.cast::<BufRingEntry>();
        // SAFETY: `ring` has room for as many entries, page-aligned.
        unsafe { io.submitter().register_buf_ring_with_flags(ring as u64, BUFFERS, GROUP, 0)? };
        let mut all = Self { ring, memory: vec![0; usize::from(BUFFERS) * BUFFER_BYTES], tail: 0 };
        (0..BUFFERS).for_each(|id| all.give(id));
        Ok(all)
    }

    /// Hands a buffer (back) to the kernel.
    fn give(&mut self, id: u16) {
        // SAFETY: the index is masked to the ring; the kernel reads an entry only below the tail that is stored after it.
        unsafe {
            let entry = &mut *self.ring.add(usize::from(self.tail & (BUFFERS - 1)));
            entry.set_addr(self.memory.as_ptr().add(usize::from(id) * BUFFER_BYTES) as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(id);
            self.tail = self.tail.wrapping_add(1);
            let tail = BufRingEntry::tail(self.ring).cast_mut();
            (*tail.cast::<std::sync::atomic::AtomicU16>())
                .store(self.tail, std::sync::atomic::Ordering::Release);
        }
    }
}

pub fn run(bench: &Bench, multishot: bool) -> io::Result<u64> {
    let mut io: IoUring =
        IoUring::builder().setup_single_issuer().setup_defer_taskrun().setup_coop_taskrun().build(512)?;
    let files: Vec<RawFd> = bench.sockets.iter().map(AsRawFd::as_raw_fd).collect();
    io.submitter().register_files(&files)?;
    let mut buffers = if multishot { Some(Buffers::register(&io)?) } else { None };
    let mut own = vec![[0_u8; BUFFER_BYTES]; files.len()];
    let mut got = vec![0_usize; files.len()];
    for (slot, buffer) in own.iter_mut().enumerate() {
        if multishot {
            push(&mut io, &receive_many(slot))?;
        }
        ask(&mut io, slot, buffer, multishot)?;
    }
    let mut requests = 0;
    let mut done: Vec<(u64, i32, u32)> = Vec::with_capacity(1024);
    while Instant::now() < bench.until {
        io.submit_and_wait(1)?;
        done.extend(io.completion().map(|c| (c.user_data(), c.result(), c.flags())));
        for (data, result, flags) in done.drain(..) {
            if result <= 0 || data & SEND != 0 {
                return Err(io::Error::other(format!("completion {data:#x} has result {result}")));
            }
            let slot = data as usize;
            got[slot] += result as usize;
            if let Some(buffers) = &mut buffers {
                buffers.give(cqueue::buffer_select(flags).expect("a provided buffer"));
                if !cqueue::more(flags) {
                    push(&mut io, &receive_many(slot))?;
                }
            }
            if got[slot] >= bench.answer_bytes {
                got[slot] = 0;
                requests += 1;
                ask(&mut io, slot, &mut own[slot], multishot)?;
            } else if !multishot {
                push(&mut io, &receive(slot, &mut own[slot]))?;
            }
        }
    }
    Ok(requests)
}

/// A request on its way; without multishot the receive is linked to it.
fn ask(io: &mut IoUring, slot: usize, buffer: &mut [u8; BUFFER_BYTES], multishot: bool) -> io::Result<()> {
    let link = if multishot { squeue::Flags::empty() } else { squeue::Flags::IO_LINK };
    let send = opcode::Send::new(Fixed(slot as u32), REQUEST.as_ptr(), REQUEST.len() as u32)
        .flags(libc::MSG_NOSIGNAL)
        .build()
        .user_data(SEND | slot as u64)
        .flags(squeue::Flags::SKIP_SUCCESS | link);
    push(io, &send)?;
    if multishot { Ok(()) } else { push(io, &receive(slot, buffer)) }
}

fn receive(slot: usize, buffer: &mut [u8; BUFFER_BYTES]) -> squeue::Entry {
    opcode::Recv::new(Fixed(slot as u32), buffer.as_mut_ptr(), BUFFER_BYTES as u32)
        .build()
        .user_data(slot as u64)
}

fn receive_many(slot: usize) -> squeue::Entry {
    opcode::RecvMulti::new(Fixed(slot as u32), GROUP).build().user_data(slot as u64)
}

fn push(io: &mut IoUring, entry: &squeue::Entry) -> io::Result<()> {
    // SAFETY: every buffer that entries point to lives until the ring is dropped.
    while unsafe { io.submission().push(entry) }.is_err() {
        io.submit()?;
    }
    Ok(())
}
