use std::io::Read;

use super::RestoreError;
use super::checksum::Checksum;

/// The bytes of one read.
const BUFFER_BYTES: usize = 64 << 10;

/// Reads what an encoder has written. Nothing is trusted: the input may be damaged, and the checksum is known only at
/// the end.
pub(super) struct Decoder<'r> {
    from: &'r mut dyn Read,
    buffer: Box<[u8]>,
    /// The filled part of the buffer, and the consumed part of that.
    filled: usize,
    taken: usize,
    /// The part of the buffer that is in the checksum.
    summed: usize,
    checksum: Checksum,
    /// The number of bytes before the buffer.
    before: u64,
}

impl<'r> Decoder<'r> {
    pub(super) fn new(from: &'r mut dyn Read) -> Decoder<'r> {
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        Decoder { from, buffer, filled: 0, taken: 0, summed: 0, checksum: Checksum::default(), before: 0 }
    }

    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], RestoreError> {
        let ready = self.buffer[self.taken..self.filled].first_chunk::<N>().copied();
        if let Some(bytes) = ready {
            self.taken += N;
            return Ok(bytes);
        }
        let mut bytes = [0; N];
        for byte in &mut bytes {
            *byte = self.byte()?;
        }
        Ok(bytes)
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, RestoreError> {
        if self.taken == self.filled && !self.fill()? {
            return Err(RestoreError::Damaged("it ends too early"));
        }
        let byte = self.buffer[self.taken];
        self.taken += 1;
        Ok(byte)
    }

    pub(super) fn word(&mut self) -> Result<u64, RestoreError> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    pub(super) fn number(&mut self) -> Result<u64, RestoreError> {
        let (mut number, mut shift) = (0_u64, 0);
        loop {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift > 63 || bits << shift >> shift != bits {
                return Err(RestoreError::Damaged("a number in it is too large"));
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
            shift += 7;
        }
    }

    /// Reads a number that must not be larger than `most`.
    pub(super) fn number_to(&mut self, most: u64, complaint: &'static str) -> Result<u64, RestoreError> {
        let number = self.number()?;
        if number <= most { Ok(number) } else { Err(RestoreError::Damaged(complaint)) }
    }

    /// Returns the number of bytes read.
    pub(super) fn len(&self) -> u64 {
        self.before + self.taken as u64
    }

    /// Reads the checksum of everything before it. Nothing may follow.
    pub(super) fn end(mut self) -> Result<(), RestoreError> {
        self.sum();
        let sum = self.checksum.value();
        if u32::from_le_bytes(self.bytes()?) != sum {
            return Err(RestoreError::Damaged("its checksum is wrong"));
        }
        if self.taken < self.filled || self.fill()? {
            return Err(RestoreError::Damaged("something follows its end"));
        }
        Ok(())
    }

    fn sum(&mut self) {
        self.checksum.update(&self.buffer[self.summed..self.taken]);
        self.summed = self.taken;
    }

    /// Refills the buffer. Returns `false` at the end of the input.
    fn fill(&mut self) -> Result<bool, RestoreError> {
        self.sum();
        self.before += self.filled as u64;
        (self.filled, self.taken, self.summed) = (0, 0, 0);
        loop {
            match self.from.read(&mut self.buffer) {
                Ok(filled) => {
                    self.filled = filled.min(self.buffer.len());
                    return Ok(filled > 0);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(RestoreError::Io(error)),
            }
        }
    }
}
