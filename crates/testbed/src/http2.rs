//! As much of HTTP/2 as somebody needs who asks over gRPC and wants to see the very
//! frames, or to spend as little on them as can be.

/// Kind of a frame: a part of a message.
pub const DATA: u8 = 0;
/// Kind: the fields of a call, or of its answer.
pub const HEADERS: u8 = 1;
/// Kind: a stream is given up.
pub const RST_STREAM: u8 = 3;
/// Kind: what a side grants to the other.
pub const SETTINGS: u8 = 4;
/// Kind: whether the other side is there.
pub const PING: u8 = 6;
/// Kind: the connection ends, and which streams are still answered.
pub const GOAWAY: u8 = 7;
/// Kind: room for more.
pub const WINDOW_UPDATE: u8 = 8;

/// Flag: nothing follows on this stream.
pub const END_STREAM: u8 = 1;
/// Flag: these are all fields.
pub const END_HEADERS: u8 = 4;
/// Flag: of settings and of pings, that they were heard.
const ACK: u8 = 1;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What stands before the payload of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// What it is.
    pub kind: u8,
    /// What else there is to know, by bits.
    pub flags: u8,
    /// The stream that it belongs to; 0 is the connection.
    pub stream: u32,
    /// The bytes that follow.
    pub length: usize,
}

impl FrameHead {
    /// How many bytes it takes.
    pub const BYTES: usize = 9;

    /// Reads it.
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

/// Says what a client says first.
pub fn greet(said: &mut Vec<u8>) {
    said.extend_from_slice(PREFACE);
    write_frame(said, SETTINGS, 0, 0, &[]);
    // As much as there can be, so that no answer ever waits until we have room for it.
    write_frame(said, WINDOW_UPDATE, 0, 0, &(0x7fff_ffff_u32 - 65_535).to_be_bytes());
}

/// Says what a frame asks for in return, if anything.
pub fn acknowledge(said: &mut Vec<u8>, head: FrameHead, payload: &[u8]) {
    match head.kind {
        SETTINGS if head.flags & ACK == 0 => write_frame(said, SETTINGS, ACK, 0, &[]),
        PING if head.flags & ACK == 0 => write_frame(said, PING, ACK, 0, payload),
        _ => {}
    }
}

/// Writes a frame behind what is there. What is too long for one is cut in its length, and nobody understands it.
pub fn write_frame(said: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let [_, length @ ..] = (payload.len() as u32).to_be_bytes();
    said.extend_from_slice(&length);
    said.extend_from_slice(&[kind, flags]);
    said.extend_from_slice(&stream.to_be_bytes());
    said.extend_from_slice(payload);
}

/// A message as gRPC writes it into the frames of a call: not compressed, and behind its length.
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
    fn a_frame_is_read_as_it_was_written() {
        let mut said = Vec::new();
        write_frame(&mut said, DATA, END_STREAM, 7, &[1; 70_000]);
        let (head, payload) = said.split_first_chunk().map(|(head, rest)| (FrameHead::read(*head), rest)).unzip();
        assert_eq!(head, Some(FrameHead { kind: DATA, flags: END_STREAM, stream: 7, length: 70_000 }));
        assert_eq!(payload, Some(&[1; 70_000][..]));
    }

    #[test]
    fn only_what_asks_for_it_is_acknowledged() {
        let answer = |kind, flags| {
            let mut said = Vec::new();
            acknowledge(&mut said, FrameHead { kind, flags, stream: 0, length: 8 }, b"12345678");
            said
        };
        assert_eq!(answer(SETTINGS, 0), [0, 0, 0, SETTINGS, ACK, 0, 0, 0, 0]);
        assert_eq!(answer(PING, 0), b"\0\0\x08\x06\x01\0\0\0\x0012345678");
        for (kind, flags) in [(SETTINGS, ACK), (PING, ACK), (DATA, 0), (GOAWAY, 0)] {
            assert!(answer(kind, flags).is_empty());
        }
    }
}
