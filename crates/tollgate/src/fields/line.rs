//! Text that is put together from prepared pieces and numbers. Every response
//! has several such lines, so writing them must cost next to nothing.

/// A line that is being written.
pub(crate) struct Line {
    /// Where it stands as long as it is short, ..
    short: [u8; Line::SHORT],
    len: usize,
    /// .. and where it stands if it is not.
    long: Vec<u8>,
}

impl Line {
    /// What a handful of rules say has room.
    const SHORT: usize = 256;

    pub(crate) fn new() -> Line {
        Line { short: [0; Line::SHORT], len: 0, long: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.as_bytes().is_empty()
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        if self.long.is_empty() { &self.short[..self.len.min(Line::SHORT)] } else { &self.long }
    }

    pub(crate) fn push(&mut self, piece: &[u8]) {
        match self.room(piece.len()) {
            Some(room) => room.copy_from_slice(piece),
            None => self.push_long(piece),
        }
    }

    pub(crate) fn push_number(&mut self, number: u64) {
        match self.room(digits(number)) {
            Some(room) => write_digits(room, number),
            None => self.push_long(number.to_string().as_bytes()),
        }
    }

    /// The next bytes of the short place, as long as the line has not outgrown it.
    fn room(&mut self, bytes: usize) -> Option<&mut [u8]> {
        let start = self.len;
        let room = self.short.get_mut(start..start + bytes).filter(|_| self.long.is_empty())?;
        self.len = start + bytes;
        Some(room)
    }

    #[cold]
    fn push_long(&mut self, piece: &[u8]) {
        if self.long.is_empty() {
            self.long.extend_from_slice(&self.short[..self.len]);
        }
        self.long.extend_from_slice(piece);
    }
}

/// Shows a number as text to `read`.
pub(crate) fn with_number<R>(number: u64, read: impl FnOnce(&[u8]) -> R) -> R {
    const LONGEST: usize = 20;
    let mut text = [0; LONGEST];
    let room = &mut text[..digits(number).min(LONGEST)];
    write_digits(room, number);
    read(room)
}

/// How many digits a number has.
fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// Fills the room with the last digits of a number, two at a time.
fn write_digits(room: &mut [u8], mut number: u64) {
    let mut pairs = room.rchunks_exact_mut(2);
    for pair in pairs.by_ref() {
        pair.copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    if let [digit] = pairs.into_remainder() {
        *digit = b'0' + (number % 10) as u8;
    }
}

/// `00` to `99`.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

#[cfg(test)]
mod tests {
    use super::{Line, with_number};

    #[test]
    fn numbers_are_written_as_ever() {
        for value in [0, 7, 10, 99, 100, 12_345_678_901, u64::MAX] {
            with_number(value, |text| assert_eq!(text, value.to_string().as_bytes()));
        }
    }

    #[test]
    fn a_line_may_be_of_any_length() {
        for piece in ["a", "ab", "0123456789"] {
            for count in 0..300_u64 {
                let mut line = Line::new();
                let mut expected = String::new();
                for number in 0..count {
                    line.push(piece.as_bytes());
                    line.push_number(number);
                    expected += piece;
                    expected += &number.to_string();
                }
                assert_eq!(line.as_bytes(), expected.as_bytes());
                assert_eq!(line.is_empty(), count == 0);
            }
        }
    }
}
