//! Recognises what a file contains by its first bytes.

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    /// Not at all.
    None,
    /// gzip, possibly with several members.
    Gzip,
    /// Zstandard, possibly with several frames.
    Zstd,
}

impl Compression {
    /// Recognises a compression that can be read.
    pub(super) fn of(start: &[u8]) -> Compression {
        match start {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            // The second is a skippable frame, with which pzstd begins.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Compression::Zstd,
            _ => Compression::None,
        }
    }

    /// Returns the name of the compression, and of the program that tests a file.
    pub(super) fn names(self) -> (&'static str, &'static str) {
        match self {
            Compression::Gzip => ("gzip", "gzip"),
            Compression::Zstd => ("Zstandard", "zstd"),
            Compression::None => ("plain", "cat"),
        }
    }
}

/// What a file contains that is not text, and the command that makes text of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BinaryContent {
    pub(super) what: &'static str,
    /// A command before the name of the file.
    pub(super) command: Option<&'static str>,
}

/// Recognises content that is not text.
pub(super) fn binary_content(start: &[u8]) -> Option<BinaryContent> {
    let known = |what, command| Some(BinaryContent { what, command: Some(command) });
    match start {
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => known("xz data", "xz -dc"),
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, ..] => known("bzip2 data", "bzip2 -dc"),
        [0x04, 0x22, 0x4d, 0x18, ..] => known("LZ4 data", "lz4 -dc"),
        [b'P', b'K', 3, 4, ..] => known("a ZIP archive", "unzip -p"),
        [0x1f, 0x8b, ..] => known("data that was compressed twice", "zcat"),
        [0xff, 0xfe, ..] => known("UTF-16 text", "iconv -f UTF-16 -t UTF-8"),
        [0xfe, 0xff, ..] => known("UTF-16 text", "iconv -f UTF-16 -t UTF-8"),
        _ if start.get(257..262) == Some(b"ustar") => known("a tar archive", "tar -xOf"),
        _ if is_binary(start) => Some(BinaryContent { what: "binary data", command: None }),
        _ => None,
    }
}

/// Whether bytes look like a program or an image. A log may contain NUL bytes: a file that was truncated while a server
/// wrote to it begins with many. So only other control characters count, of which a log has few.
fn is_binary(start: &[u8]) -> bool {
    let is_control = |byte: &&u8| **byte < 0x20 && !matches!(**byte, 0 | b'\t' | b'\n' | b'\r' | 0x1b);
    let control = start.iter().filter(is_control).count();
    control > 4 && control > start.len() / 32
}

#[cfg(test)]
mod tests {
    use super::{Compression, binary_content};

    #[test]
    fn compressions_are_recognised_by_content() {
        assert_eq!(Compression::of(b"\x1f\x8b\x08"), Compression::Gzip);
        assert_eq!(Compression::of(b"\x28\xb5\x2f\xfd"), Compression::Zstd);
        assert_eq!(Compression::of(b"\x50\x2a\x4d\x18"), Compression::Zstd);
        assert_eq!(Compression::of(b"192.0.2.1 "), Compression::None);
        assert_eq!(Compression::of(b""), Compression::None);
    }

    #[test]
    fn other_contents_are_recognised_and_logs_are_not() {
        let what = |start: &[u8]| binary_content(start).map(|content| content.what);
        assert_eq!(what(b"\xfd7zXZ\0\0"), Some("xz data"));
        assert_eq!(what(b"\x7fELF\x02\x01\x01\0\0\x03\x04\x05\x06\x07"), Some("binary data"));
        assert_eq!(what(b"192.0.2.1 - - [16/Nov/2026:09:30:00 +0000] \"GET / HTTP/1.1\" 200 5\n"), None);
        assert_eq!(what(&[0; 4_096]), None);
        assert_eq!(what(b""), None);
    }
}
