//! One request as 64 bytes; the layout is documented in docs/formats.md, section 2.

/// "This phase did not happen", for every nullable field of 32 bits.
pub const NONE_U32: u32 = u32::MAX;
/// "The answer named no instance".
pub const NONE_INSTANCE: u16 = u16::MAX;
/// Bytes of a row in the log.
pub const ROW_BYTES: usize = 64;

/// Bits of [`Row::flags`].
pub mod flags {
    /// The request went over a connection that had served another before.
    pub const REUSED: u8 = 1;
    /// Scheduled before the end of the warm-up.
    pub const WARMUP: u8 = 2;
    /// Whether the instance was cold is known.
    pub const COLD_KNOWN: u8 = 4;
    /// The request waited for an instance to start.
    pub const COLD: u8 = 8;
    /// HTTP/2.
    pub const HTTP2: u8 = 16;
}

/// One request. Times in µs; `scheduled_us` is on the run clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// When the request was due.
    pub scheduled_us: i64,
    /// Scheduled → picked up by the engine: the instrument's fault.
    pub lag_us: u32,
    /// Picked up → connection slot free: backpressure.
    pub wait_us: u32,
    /// Name resolution.
    pub dns_us: u32,
    /// TCP connect.
    pub connect_us: u32,
    /// TLS handshake.
    pub tls_us: u32,
    /// Started → first byte of the answer.
    pub ttfb_us: u32,
    /// First byte → end; the whole total when there was no first byte.
    pub after_ttfb_us: u32,
    /// Bytes sent.
    pub bytes_out: u32,
    /// Bytes received.
    pub bytes_in: u32,
    /// Iteration of this user.
    pub iteration: u32,
    /// Virtual user (closed) or arrival index (open).
    pub user: u32,
    /// HTTP status; 0 = no answer.
    pub status: u16,
    /// Step id.
    pub step: u16,
    /// Instance id or [`NONE_INSTANCE`].
    pub instance: u16,
    /// Outcome id.
    pub outcome: u8,
    /// Workload id.
    pub workload: u8,
    /// Target id.
    pub target: u8,
    /// Thread.
    pub worker: u8,
    /// 0 = first attempt.
    pub attempt: u8,
    /// See [`flags`].
    pub flags: u8,
}
