//! The requests of a log in a few bytes each, to be replayed as often as an analysis needs.
//!
//! Limits can be proposed only when the endpoints and the clients are known, and a log on stdin can be read only once.
//! So the log is parsed once, and the requests are kept as numbers: in memory up to [`MEMORY_BYTES`], then in a
//! temporary file without a name.

use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};

use tempfile::SpooledTempFile;

/// The bytes that stay in memory: some ten million requests.
const MEMORY_BYTES: usize = 64 << 20;

/// The bytes that are written or read at once.
const BUFFER_BYTES: usize = 64 << 10;

/// The most bytes of a number.
const MAX_VARINT_BYTES: usize = 10;

/// The requests that are replayed together. What an analysis needs for them fits into the second-level cache of common
/// processors.
const BATCH: usize = 256;

/// A request: its time and its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TracedRequest {
    pub(super) time_ns: u64,
    pub(super) endpoint: u32,
    /// Whether the status was 401 or 403.
    pub(super) is_denied: bool,
}

/// Some successive requests. They are replayed together, so that an analysis can look up the clients of all of them
/// first, and the processor waits for the memory of several clients at once.
#[derive(Debug)]
pub(super) struct TracedBatch {
    pub(super) requests: Vec<TracedRequest>,
    /// For each key the number of the client of each request; `None` if the request lacks the key.
    pub(super) clients: Vec<Vec<Option<u32>>>,
}

/// Writes a trace.
pub(super) struct TraceWriter {
    file: BufWriter<SpooledTempFile>,
    last_ns: u64,
    requests: u64,
}

/// A complete trace.
pub(super) struct RequestTrace {
    file: SpooledTempFile,
    keys: usize,
    requests: u64,
}

impl TraceWriter {
    pub(super) fn new() -> TraceWriter {
        let file = SpooledTempFile::new(MEMORY_BYTES);
        TraceWriter { file: BufWriter::with_capacity(BUFFER_BYTES, file), last_ns: 0, requests: 0 }
    }

    /// Appends a request. Times must not go back; one that does is taken as the time of the request before it.
    #[inline]
    pub(super) fn push(
        &mut self,
        time_ns: u64,
        endpoint: u32,
        is_denied: bool,
        clients: impl IntoIterator<Item = Option<u32>>,
    ) -> io::Result<()> {
        let time_ns = time_ns.max(self.last_ns);
        let mut bytes = [0; 64];
        let mut end = 0;
        let numbers = [time_ns - self.last_ns, u64::from(endpoint) << 1 | u64::from(is_denied)];
        let clients = clients.into_iter().map(|client| client.map_or(0, |client| u64::from(client) + 1));
        for number in numbers.into_iter().chain(clients) {
            if end + MAX_VARINT_BYTES > bytes.len() {
                self.file.write_all(&bytes[..end])?;
                end = 0;
            }
            end += write_varint(&mut bytes[end..], number);
        }
        self.file.write_all(&bytes[..end])?;
        (self.last_ns, self.requests) = (time_ns, self.requests + 1);
        Ok(())
    }

    /// Ends the trace, whose requests have this number of keys.
    pub(super) fn finish(self, keys: usize) -> io::Result<RequestTrace> {
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(RequestTrace { file, keys, requests: self.requests })
    }
}

impl RequestTrace {
    /// Calls `on_batch` for all requests, in the order of time.
    pub(super) fn replay(&mut self, mut on_batch: impl FnMut(&TracedBatch)) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        let mut reader = VarintReader::new(&mut self.file);
        let mut batch = TracedBatch { requests: Vec::new(), clients: vec![Vec::new(); self.keys] };
        let (mut time_ns, mut left) = (0, self.requests);
        while left > 0 {
            let count = left.min(BATCH as u64);
            batch.read(&mut reader, &mut time_ns, count)?;
            on_batch(&batch);
            left -= count;
        }
        Ok(())
    }
}

impl TracedBatch {
    /// Replaces the requests by the next ones of a trace. `time_ns` is the time of the one before them.
    fn read(&mut self, reader: &mut VarintReader<impl Read>, time_ns: &mut u64, count: u64) -> io::Result<()> {
        self.requests.clear();
        self.clients.iter_mut().for_each(Vec::clear);
        for _ in 0..count {
            *time_ns += reader.next()?;
            let endpoint = reader.next()?;
            let (endpoint, is_denied) = ((endpoint >> 1) as u32, endpoint & 1 == 1);
            self.requests.push(TracedRequest { time_ns: *time_ns, endpoint, is_denied });
            for clients in &mut self.clients {
                clients.push(reader.next()?.checked_sub(1).map(|client| client as u32));
            }
        }
        Ok(())
    }
}

/// Writes 7 bits a byte, the lowest first; the highest bit of a byte says that another follows.
#[inline]
fn write_varint(bytes: &mut [u8], mut number: u64) -> usize {
    let mut at = 0;
    while number >= 0x80 {
        bytes[at] = number as u8 | 0x80;
        number >>= 7;
        at += 1;
    }
    bytes[at] = number as u8;
    at + 1
}

/// Reads numbers from a buffer that always contains the whole next number, unless the file ends.
struct VarintReader<R> {
    file: R,
    buffer: Vec<u8>,
    at: usize,
    end: usize,
}

impl<R: Read> VarintReader<R> {
    fn new(file: R) -> VarintReader<R> {
        VarintReader { file, buffer: vec![0; BUFFER_BYTES], at: 0, end: 0 }
    }

    #[inline]
    fn next(&mut self) -> io::Result<u64> {
        if self.end - self.at < MAX_VARINT_BYTES {
            self.fill()?;
        }
        let (mut number, mut shift) = (0_u64, 0);
        loop {
            let Some(byte) = self.buffer[self.at..self.end].first() else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            self.at += 1;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
            shift = (shift + 7).min(63);
        }
    }

    #[cold]
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.at..self.end, 0);
        (self.at, self.end) = (0, self.end - self.at);
        while self.end < MAX_VARINT_BYTES {
            match self.file.read(&mut self.buffer[self.end..])? {
                0 => break,
                read => self.end += read,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_replays_what_was_written_as_often_as_needed() {
        let mut random = crate::traffic::SeededRandom::new(5);
        let mut writer = TraceWriter::new();
        let mut written = Vec::new();
        let mut time_ns = 1_767_225_600_000_000_000;
        for _ in 0..50_000 {
            let bits = random.below(40);
            time_ns += random.below(1 << bits);
            let mut client = || random.below(3).checked_sub(1).map(|_| u32::MAX - 1 - random.below(1 << 30) as u32);
            let clients = vec![client(), client()];
            let (endpoint, is_denied) = (random.below(10_000) as u32, random.below(2) == 1);
            writer.push(time_ns, endpoint, is_denied, clients.iter().copied()).unwrap();
            written.push((TracedRequest { time_ns, endpoint, is_denied }, clients));
        }
        let mut trace = writer.finish(2).unwrap();
        for _ in 0..2 {
            let mut replayed = Vec::new();
            let replay = trace.replay(|batch| {
                for (at, request) in batch.requests.iter().enumerate() {
                    replayed.push((*request, batch.clients.iter().map(|clients| clients[at]).collect()));
                }
            });
            replay.unwrap();
            assert!(replayed == written);
        }
    }

    #[test]
    fn empty_trace_replays_nothing() {
        let mut trace = TraceWriter::new().finish(1).unwrap();
        trace.replay(|_| panic!("there is no request")).unwrap();
    }
}
