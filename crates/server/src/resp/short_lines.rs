/// The lines of integers from -1 to 99: nearly every number that is answered.
/// Each is written down with its length behind it, to be copied and not put together.
static LINES: [[u8; LINE_BYTES]; 101] = {
    let mut lines = [[0; LINE_BYTES]; 101];
    lines[0] = [b':', b'-', b'1', b'\r', b'\n', 0, 0, 5];
    let mut value = 0;
    while value < 100 {
        let (tens, ones) = (b'0' + value / 10, b'0' + value % 10);
        lines[value as usize + 1] =
            if value < 10 { [b':', ones, b'\r', b'\n', 0, 0, 0, 4] } else { [b':', tens, ones, b'\r', b'\n', 0, 0, 5] };
        value += 1;
    }
    lines
};

const LINE_BYTES: usize = 8;

/// Room for eight lines.
const ROOM: usize = 64;

/// Lines of short integers, one behind the other.
pub(super) struct ShortLines {
    bytes: [u8; ROOM],
    length: usize,
}

impl ShortLines {
    /// After the line that opens a list of so many, which are fewer than ten.
    #[inline]
    pub(super) fn of_list<const COUNT: usize>() -> ShortLines {
        const { assert!(COUNT < 10, "one digit") };
        let mut bytes = [0; ROOM];
        bytes[..4].copy_from_slice(&[b'*', b'0' + COUNT as u8, b'\r', b'\n']);
        ShortLines { bytes, length: 4 }
    }

    /// Adds the line of an integer. `false` if it is too long, or there is no more room.
    #[inline]
    pub(super) fn add(&mut self, value: i64) -> bool {
        let line = usize::try_from(value.wrapping_add(1)).ok().and_then(|at| LINES.get(at));
        let room = self.bytes.get_mut(self.length..self.length + LINE_BYTES);
        let (Some(line), Some(room)) = (line, room) else { return false };
        // What is behind the line is written over by the next.
        room.copy_from_slice(line);
        self.length += usize::from(line[LINE_BYTES - 1]);
        true
    }

    /// The lines so far; then there are none.
    #[inline]
    pub(super) fn take(&mut self) -> &[u8] {
        let length = std::mem::take(&mut self.length);
        self.bytes.get(..length).unwrap_or_default()
    }
}
