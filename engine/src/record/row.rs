//! One request as 64 bytes; the layout is documented in docs/formats.md, section 2.

/// "This phase did not happen", for every nullable field of 32 bits.
pub const NONE_U32: u32 = u32::MAX;
/// "No instance": the answer named none and none was connected to.
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
    /// The upper three bits are the number of redirects that were followed.
    pub const REDIRECTS_SHIFT: u8 = 5;
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

impl Row {
    /// The row as it lies in the log, little-endian.
    #[inline]
    pub fn encode(&self) -> [u8; ROW_BYTES] {
        let mut b = [0u8; ROW_BYTES];
        b[0..8].copy_from_slice(&self.scheduled_us.to_le_bytes());
        b[8..12].copy_from_slice(&self.lag_us.to_le_bytes());
        b[12..16].copy_from_slice(&self.wait_us.to_le_bytes());
        b[16..20].copy_from_slice(&self.dns_us.to_le_bytes());
        b[20..24].copy_from_slice(&self.connect_us.to_le_bytes());
        b[24..28].copy_from_slice(&self.tls_us.to_le_bytes());
        b[28..32].copy_from_slice(&self.ttfb_us.to_le_bytes());
        b[32..36].copy_from_slice(&self.after_ttfb_us.to_le_bytes());
        b[36..40].copy_from_slice(&self.bytes_out.to_le_bytes());
        b[40..44].copy_from_slice(&self.bytes_in.to_le_bytes());
        b[44..48].copy_from_slice(&self.iteration.to_le_bytes());
        b[48..52].copy_from_slice(&self.user.to_le_bytes());
        b[52..54].copy_from_slice(&self.status.to_le_bytes());
        b[54..56].copy_from_slice(&self.step.to_le_bytes());
        b[56..58].copy_from_slice(&self.instance.to_le_bytes());
        b[58] = self.outcome;
        b[59] = self.workload;
        b[60] = self.target;
        b[61] = self.worker;
        b[62] = self.attempt;
        b[63] = self.flags;
        b
    }

    /// The inverse of [`Row::encode`]; every 64 bytes are a row.
    #[inline]
    pub fn decode(b: &[u8; ROW_BYTES]) -> Self {
        let u32_at = |at: usize| u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        let u16_at = |at: usize| u16::from_le_bytes([b[at], b[at + 1]]);
        Self {
            scheduled_us: i64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]),
            lag_us: u32_at(8),
            wait_us: u32_at(12),
            dns_us: u32_at(16),
            connect_us: u32_at(20),
            tls_us: u32_at(24),
            ttfb_us: u32_at(28),
            after_ttfb_us: u32_at(32),
            bytes_out: u32_at(36),
            bytes_in: u32_at(40),
            iteration: u32_at(44),
            user: u32_at(48),
            status: u16_at(52),
            step: u16_at(54),
            instance: u16_at(56),
            outcome: b[58],
            workload: b[59],
            target: b[60],
            worker: b[61],
            attempt: b[62],
            flags: b[63],
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Any row at all.
    pub(crate) fn any_row() -> impl Strategy<Value = Row> {
        any::<[u8; 32]>().prop_flat_map(|a| {
            any::<[u8; 32]>().prop_map(move |b| {
                let mut bytes = [0u8; ROW_BYTES];
                bytes[..32].copy_from_slice(&a);
                bytes[32..].copy_from_slice(&b);
                Row::decode(&bytes)
            })
        })
    }

    proptest! {
        #[test]
        fn decode_is_the_inverse_of_encode(row in any_row()) {
            prop_assert_eq!(Row::decode(&row.encode()), row);
        }
    }

    #[test]
    fn fields_lie_where_the_document_says() {
        let row = Row {
            scheduled_us: -2,
            lag_us: 3,
            wait_us: 4,
            dns_us: NONE_U32,
            connect_us: 5,
            tls_us: 6,
            ttfb_us: 7,
            after_ttfb_us: 8,
            bytes_out: 9,
            bytes_in: 10,
            iteration: 11,
            user: 12,
            status: 200,
            step: 13,
            instance: NONE_INSTANCE,
            outcome: 14,
            workload: 15,
            target: 16,
            worker: 17,
            attempt: 18,
            flags: 19,
        };
        let b = row.encode();
        assert_eq!(&b[0..8], (-2i64).to_le_bytes());
        assert_eq!((b[8], b[12], b[16], b[20], b[24], b[28], b[32]), (3, 4, 255, 5, 6, 7, 8));
        assert_eq!((b[36], b[40], b[44], b[48], b[52], b[54], b[56]), (9, 10, 11, 12, 200, 13, 255));
        assert_eq!(&b[58..64], [14, 15, 16, 17, 18, 19]);
    }
}
