//! What is known about each socket, and who waits for it.
use super::wait::Event;
use super::{Interest, TaskId};
use rustix::event::epoll::EventFlags;

/// Names a registered socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketId {
    pub(super) index: u32,
    generation: u32,
}

/// Edge-triggered readiness: set by an event, cleared by whoever meets the end of it.
#[derive(Clone, Copy, Default)]
pub(super) struct Socket {
    generation: u32,
    pub readable: bool,
    pub writable: bool,
    /// The other side has closed, or there is an error: reading will not block any more.
    pub hung_up: bool,
    pub waiter: Option<TaskId>,
}

impl Socket {
    /// Whether what is waited for is there.
    pub fn is_ready(self, interest: Interest) -> bool {
        match interest {
            Interest::Read => self.readable,
            Interest::Write => self.writable,
            Interest::Any => self.readable || self.writable,
        }
    }
}

#[derive(Default)]
pub(super) struct Sockets {
    slots: Vec<Socket>,
    free: Vec<u32>,
}

impl SocketId {
    pub(super) fn data(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }
}

impl Sockets {
    pub fn add(&mut self) -> SocketId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Socket::default());
            self.slots.len() as u32 - 1
        });
        SocketId { index, generation: self.slots[index as usize].generation }
    }

    /// Events of the old socket that are still on their way are told by its generation.
    pub fn remove(&mut self, id: SocketId) {
        let generation = id.generation.wrapping_add(1);
        self.slots[id.index as usize] = Socket { generation, ..Socket::default() };
        self.free.push(id.index);
    }

    pub fn get(&mut self, id: SocketId) -> &mut Socket {
        &mut self.slots[id.index as usize]
    }

    /// Takes an event in and names the task to wake.
    pub fn note(&mut self, event: Event) -> Option<TaskId> {
        let data = event.data;
        let socket = self.slots.get_mut(data as u32 as usize)?;
        if socket.generation != (data >> 32) as u32 {
            return None;
        }
        let flags = EventFlags::from_bits_retain(event.flags);
        let hung_up = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        socket.hung_up |= hung_up;
        socket.readable |= hung_up || flags.contains(EventFlags::IN);
        socket.writable |= hung_up || flags.contains(EventFlags::OUT);
        socket.waiter.take()
    }
}
