//! Logs with known content: the traffic of an API with a hundred thousand clients.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use super::LogRecord;

/// The log that is generated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogKind {
    Combined,
    CombinedGzip,
    CombinedZstd,
    NginxJson,
    CaddyJson,
    Csv,
}

impl LogKind {
    pub(crate) const ALL: [LogKind; 6] = [
        LogKind::Combined,
        LogKind::CombinedGzip,
        LogKind::CombinedZstd,
        LogKind::NginxJson,
        LogKind::CaddyJson,
        LogKind::Csv,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            LogKind::Combined => "combined",
            LogKind::CombinedGzip => "combined, gzip",
            LogKind::CombinedZstd => "combined, Zstandard",
            LogKind::NginxJson => "nginx JSON",
            LogKind::CaddyJson => "Caddy JSON",
            LogKind::Csv => "CSV",
        }
    }
}

/// A log in a file.
pub(crate) struct GeneratedLog {
    pub(crate) path: PathBuf,
    pub(crate) lines: u64,
    /// The bytes of its text.
    pub(crate) bytes: u64,
    /// The sum of the digests of its records.
    pub(crate) digest: u64,
}

/// One request.
struct Request {
    /// Seconds since 2026-11-16.
    second: u64,
    client: u32,
    target: u64,
    status: u16,
}

const DAY_S: u64 = 1_794_787_200;
/// The requests of one second: a line reaches the reader's tolerance of 10 s after this many lines.
const REQUESTS_A_SECOND: u64 = 1_000;
/// The clients of most logs.
pub(crate) const CLIENTS: u64 = 100_000;

impl GeneratedLog {
    /// Writes a log of requests from this number of clients.
    pub(crate) fn write(directory: &Path, kind: LogKind, lines: u64, clients: u64) -> GeneratedLog {
        let path = directory.join(format!("{}-{clients}", kind.name().replace([' ', ','], "-")));
        let file = BufWriter::with_capacity(1 << 20, File::create(&path).unwrap());
        let mut file: Box<dyn Write> = match kind {
            LogKind::CombinedGzip => Box::new(flate2::write::GzEncoder::new(file, flate2::Compression::fast())),
            LogKind::CombinedZstd => Box::new(zstd::Encoder::new(file, 1).unwrap().auto_finish()),
            _ => Box::new(file),
        };
        let (mut line, mut bytes, mut digest, mut random) = (Vec::new(), 0, 0_u64, 1_u64);
        if kind == LogKind::Csv {
            file.write_all(b"time,ip,user,method,path,host,status,user-agent\n").unwrap();
        }
        for number in 0..lines {
            // A generator of Marsaglia's is random enough for lines.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let request = Request {
                second: number / REQUESTS_A_SECOND,
                client: 0x0a00_0000 + (random % clients) as u32,
                target: random >> 20 & 0xfff,
                status: if random >> 40 & 15 == 0 { 404 } else { 200 },
            };
            line.clear();
            request.write(kind, &mut line);
            file.write_all(&line).unwrap();
            bytes += line.len() as u64;
            digest = digest.wrapping_add(request.digest());
        }
        GeneratedLog { path, lines, bytes, digest }
    }
}

impl Request {
    fn digest(&self) -> u64 {
        sum((DAY_S + self.second) * 1_000_000_000, self.client, self.status, "POST".len() + self.target().len())
    }

    fn target(&self) -> String {
        format!("/api/v1/items/{}?page=2", self.target)
    }

    fn write(&self, kind: LogKind, line: &mut Vec<u8>) {
        let (ip, target, status) = (Ipv4Addr::from_bits(self.client), self.target(), self.status);
        let (hour, minute, second) = (self.second / 3_600, self.second / 60 % 60, self.second % 60);
        let agent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0 Safari/537.36";
        let written = match kind {
            LogKind::Combined | LogKind::CombinedGzip | LogKind::CombinedZstd => writeln!(
                line,
                "{ip} - - [16/Nov/2026:{hour:02}:{minute:02}:{second:02} +0000] \"POST {target} HTTP/1.1\" {status} 1234 \
                 \"https://www.example.com/\" \"{agent}\""
            ),
            LogKind::NginxJson => writeln!(
                line,
                "{{\"time_iso8601\":\"2026-11-16T{hour:02}:{minute:02}:{second:02}+00:00\",\"remote_addr\":\"{ip}\",\
                 \"remote_user\":\"\",\"request\":\"POST {target} HTTP/1.1\",\"status\":{status},\"body_bytes_sent\":1234,\
                 \"http_referer\":\"https://www.example.com/\",\"http_user_agent\":\"{agent}\",\"request_time\":0.003}}"
            ),
            LogKind::CaddyJson => writeln!(
                line,
                "{{\"level\":\"info\",\"ts\":{}.0,\"logger\":\"http.log.access\",\"msg\":\"handled request\",\"request\":\
                 {{\"remote_ip\":\"{ip}\",\"remote_port\":\"4711\",\"client_ip\":\"{ip}\",\"proto\":\"HTTP/2.0\",\
                 \"method\":\"POST\",\"host\":\"www.example.com\",\"uri\":\"{target}\",\"headers\":{{\"User-Agent\":\
                 [\"{agent}\"],\"Accept\":[\"*/*\"]}}}},\"bytes_read\":0,\"user_id\":\"\",\"duration\":0.0009,\
                 \"size\":1234,\"status\":{status},\"resp_headers\":{{\"Server\":[\"Caddy\"]}}}}",
                DAY_S + self.second
            ),
            LogKind::Csv => {
                writeln!(line, "{},{ip},,POST,{target},www.example.com,{status},\"{agent}\"", DAY_S + self.second)
            }
        };
        written.unwrap();
    }
}

/// Returns a digest of what was read.
pub(crate) fn digest(record: &LogRecord<'_>) -> u64 {
    let client = match record.client_ip {
        Some(IpAddr::V4(address)) => address.to_bits(),
        _ => 0,
    };
    sum(record.time_ns, client, record.status.unwrap_or(0), record.method.len() + record.target.len())
}

fn sum(time_ns: u64, client: u32, status: u16, length: usize) -> u64 {
    let parts = time_ns ^ u64::from(client).rotate_left(40) ^ u64::from(status);
    parts.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(length as u64)
}
