//! The life of a disturber: it undoes what another one has left, waits for whoever has the token, and undoes all before it ends.
use super::find;
use super::held::HeldAll;
use super::journal::Journal;
use super::session;
use crate::remote::door::{Door, at_most};
use crate::remote::handshake::Token;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// Connections at once; each is one fault at most.
const MOST_CONNECTIONS: usize = 256;

/// Serves until a signal asks for the end. `machine` is a process that sees all of the machine; `listening` is told the address, and what of an earlier one could not be undone.
pub fn over_tcp(
    address: &str,
    token: Token,
    journal: &Path,
    machine: i32,
    listening: impl FnOnce(SocketAddr, &[String]),
) -> Result<(), String> {
    let mut signals =
        Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(|e| format!("cannot watch signals: {e}"))?;
    find::see_machine_as(machine);
    let journal = Journal::open(journal)?;
    let left = journal.undo_left();
    let (door, bound) = Door::open(address, token)?;
    listening(bound, &left);
    let held = Arc::new(HeldAll::new(journal));
    let holding = Arc::clone(&held);
    door.serve(at_most(MOST_CONNECTIONS, move |stream, proof| session::run(&holding, stream, proof)))?;
    signals.forever().next();
    let not_undone = held.end();
    if not_undone.is_empty() { Ok(()) } else { Err(not_undone.join("; ")) }
}
