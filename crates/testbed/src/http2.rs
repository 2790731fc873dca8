//! The minimum of HTTP/2 for a gRPC client in a test that inspects frames, or in a benchmark that must spend little time
//! on them.

/// Frame type: a part of a message.
pub const DATA: u8 = 0;
/// Frame type: the header fields of a request or response.
pub const HEADERS: u8 = 1;
/// Frame type: a stream is reset.
pub const RST_STREAM: u8 = 3;
/// Frame type: the settings of a side.
pub const SETTINGS: u8 = 4;
/// Frame type: a liveness check of the peer.
pub const PING: u8 = 6;
/// Frame type: the connection ends; names the last stream that is still processed.
pub const GOAWAY: u8 = 7;
/// Frame type: an increase of the flow-control window.
pub const WINDOW_UPDATE: u8 = 8;

/// Flag: the last frame of this side of the stream.
pub const END_STREAM: u8 = 1;
/// Flag: the header fields are complete.
pub const END_HEADERS: u8 = 4;
/// Flag: acknowledges settings or a ping.
const ACK: u8 = 1;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// The frame type.
    pub kind: u8,
    /// The flags, as bits.
    pub flags: u8,
    /// The stream ID; 0 is the connection.
    pub stream: u32,
    /// The length of the payload in bytes.
    pub length: usize,
}

impl FrameHead {
    /// The length of the header in bytes.
    pub const BYTES: usize = 9;

    /// Parses a header.
    pub fn read(bytes: [u8; FrameHead::BYTES]) -> FrameHead {
        let [long, longer, length, kind, flags, stream @ ..] = bytes;
        FrameHead {
            kind,
            flags,
            stream: u32::from_be_bytes(stream),
            length: u32::from_be_bytes([0, long, longer, length]) as usize,
        }
    }
}

/// Appends the connection preface of a client: the magic, its settings, and a large window.
pub fn greet(out: &mut Vec<u8>) {
    out.extend_from_slice(PREFACE);
    write_frame(out, SETTINGS, 0, 0, &[]);
    // The maximum window of the connection, so that no response waits for a window update.
    write_frame(out, WINDOW_UPDATE, 0, 0, &(0x7fff_ffff_u32 - 65_535).to_be_bytes());
}

/// Appends the acknowledgement that a frame requires, if any.
pub fn acknowledge(out: &mut Vec<u8>, head: FrameHead, payload: &[u8]) {
    match head.kind {
        SETTINGS if head.flags & ACK == 0 => write_frame(out, SETTINGS, ACK, 0, &[]),
        PING if head.flags & ACK == 0 => write_frame(out, PING, ACK, 0, payload),
        _ => {}
    }
}

/// Appends a frame. The length of a payload of 16 MiB or more is truncated, which makes the frame invalid.
pub fn write_frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let [_, length @ ..] = (payload.len() as u32).to_be_bytes();
    out.extend_from_slice(&length);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// Returns a message in gRPC's framing: an uncompressed flag and the length before it.
pub fn grpc_message(encoded: &[u8]) -> Vec<u8> {
    let mut message = vec![0];
    message.extend((encoded.len() as u32).to_be_bytes());
    message.extend(encoded);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_frame_header_parses_to_the_same_values() {
        let mut out = Vec::new();
        write_frame(&mut out, DATA, END_STREAM, 7, &[1; 70_000]);
        let (head, payload) = out.split_first_chunk().map(|(head, rest)| (FrameHead::read(*head), rest)).unzip();
        assert_eq!(head, Some(FrameHead { kind: DATA, flags: END_STREAM, stream: 7, length: 70_000 }));
        assert_eq!(payload, Some(&[1; 70_000][..]));
    }

    #[test]
    fn only_settings_and_pings_without_ack_are_acknowledged() {
        let acknowledgement = |kind, flags| {
            let mut out = Vec::new();
            acknowledge(&mut out, FrameHead { kind, flags, stream: 0, length: 8 }, b"12345678");
            out
        };
        assert_eq!(acknowledgement(SETTINGS, 0), [0, 0, 0, SETTINGS, ACK, 0, 0, 0, 0]);
        assert_eq!(acknowledgement(PING, 0), b"\0\0\x08\x06\x01\0\0\0\x0012345678");
        for (kind, flags) in [(SETTINGS, ACK), (PING, ACK), (DATA, 0), (GOAWAY, 0)] {
            assert!(acknowledgement(kind, flags).is_empty());
        }
    }
}
