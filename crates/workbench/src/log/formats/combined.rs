//! The Common and the Combined Log Format:
//!
//! ```text
//! 192.0.2.1 - alice [16/Nov/2026:09:30:00 +0000] "GET /a HTTP/1.1" 200 512 "https://example.com/" "curl/8"
//! ```
//!
//! Servers append more fields. Of those, a quoted list of addresses is X-Forwarded-For, as in nginx' `main` format;
//! the others are left out. Apache's `vhost_combined` begins with the host.

use memchr::{memchr, memchr2};

use super::request_line::read_request_line;
use crate::log::chunk::{ChunkSpan, FieldLabel, ParsedRecord};
use crate::log::parse::{FieldChoice, FieldCollector, LineContent, LineParser};
use crate::log::text::{TimeParser, is_address_list, parse_address, split_port, unescape_log};

/// The length of a time in brackets, with the quote that follows it: `[16/Nov/2026:09:30:00 +0000] "`.
const TIME_LENGTH: usize = 30;

const REFERER: &str = "referer";
const USER_AGENT: &str = "user-agent";
const FORWARDED_FOR: &str = "x-forwarded-for";

/// Parses the Common and the Combined Log Format.
pub(super) struct CombinedParser {
    times: TimeParser,
    /// Whether any of the quoted fields at the end is delivered.
    reads_fields: bool,
}

impl CombinedParser {
    pub(super) fn new(choice: &FieldChoice) -> CombinedParser {
        let reads_fields = [REFERER, USER_AGENT, FORWARDED_FOR].iter().any(|name| choice.contains(name.as_bytes()));
        CombinedParser { times: TimeParser::default(), reads_fields }
    }
}

impl LineParser for CombinedParser {
    #[inline]
    fn parse(
        &mut self,
        line: &mut [u8],
        start: usize,
        record: &mut ParsedRecord,
        fields: &mut FieldCollector<'_>,
    ) -> Result<LineContent, &'static str> {
        let users = read_client(line, start, record)?;
        let time = read_user(line, users, start, record)?;
        let Some([b'[', text @ .., b']', b' ', b'"']) = line.get(time..time + TIME_LENGTH) else {
            return Err("expected a time in brackets and a quoted request");
        };
        record.time_ns = self.times.clf(text).ok_or("the time is not like 16/Nov/2026:09:30:00 +0000")?;
        let request = time + TIME_LENGTH;
        let (end, status) = request_end(line, request)?;
        read_request_line(&mut line[request..end], start + request, record);
        record.status = status;
        if self.reads_fields {
            read_fields(line, end + 5, start, fields);
        }
        Ok(LineContent::Request)
    }
}

/// Reads the address at the beginning, and returns the position after it.
#[inline]
fn read_client(line: &[u8], start: usize, record: &mut ParsedRecord) -> Result<usize, &'static str> {
    let end = memchr(b' ', line).ok_or("expected an address and a time")?;
    record.client_ip = parse_address(&line[..end]);
    if record.client_ip.is_none() {
        return Ok(read_host(line, end, start, record));
    }
    Ok(end + 1)
}

/// Reads a host before the address. If no address follows either, the first word is the name of the client.
#[cold]
fn read_host(line: &[u8], end: usize, start: usize, record: &mut ParsedRecord) -> usize {
    let rest = &line[end + 1..];
    let next = memchr(b' ', rest).unwrap_or(rest.len());
    record.client_ip = parse_address(&rest[..next]);
    if record.client_ip.is_none() || next == rest.len() {
        return end + 1;
    }
    record.host = ChunkSpan::new(start, start + split_port(&line[..end]));
    end + 1 + next + 1
}

/// Reads the two users, and returns the position of the time.
#[inline]
fn read_user(line: &[u8], at: usize, start: usize, record: &mut ParsedRecord) -> Result<usize, &'static str> {
    let rest = &line[at..];
    if rest.starts_with(b"- - [") {
        return Ok(at + 4);
    }
    // The name of a user may contain spaces and brackets.
    let is_time = |bracket: &usize| rest.get(bracket + 3) == Some(&b'/') && *bracket > 1 && rest[bracket - 1] == b' ';
    let bracket = memchr::memchr_iter(b'[', rest).find(is_time).ok_or("expected a time in brackets")?;
    let users = &rest[..bracket - 1];
    let user = memchr(b' ', users).map_or(users.len(), |space| space + 1);
    if !matches!(&users[user..], b"-" | b"" | b"\"\"") {
        record.user = ChunkSpan::new(start + at + user, start + at + users.len());
    }
    Ok(at + bracket)
}

/// Returns the position of the quote that closes the request, and the status after it.
#[inline]
fn request_end(line: &[u8], request: usize) -> Result<(usize, u16), &'static str> {
    let mut end = quoted_end(line, request).ok_or("the request has no closing quote")?;
    loop {
        if let Some(status) = status(&line[end + 1..]) {
            return Ok((end, status));
        }
        // Traefik does not escape quotes in the request.
        end = quoted_end(line, end + 1).ok_or("expected a status after the request")?;
    }
}

/// Returns the position of the quote that closes a text, after a backslash for each escaped one.
#[inline]
pub(super) fn quoted_end(line: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    loop {
        at += memchr2(b'"', b'\\', &line[at..])?;
        if line[at] == b'"' {
            return Some(at);
        }
        at += 2;
        if at > line.len() {
            return None;
        }
    }
}

/// Parses ` 200` and what ends it.
#[inline]
fn status(text: &[u8]) -> Option<u16> {
    match text {
        [b' ', a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', b' ', ..]
        | [b' ', a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] => {
            Some(u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0'))
        }
        [b' ', b'-', ..] | [b' ', b'0', ..] => Some(0),
        _ => None,
    }
}

/// Reads the quoted fields at the end: the referer, the user agent, and perhaps X-Forwarded-For.
fn read_fields(line: &mut [u8], from: usize, start: usize, fields: &mut FieldCollector<'_>) {
    let mut at = from.min(line.len());
    for number in 0.. {
        let Some(open) = memchr(b'"', &line[at..]) else { return };
        let first = at + open + 1;
        let Some(end) = quoted_end(line, first) else { return };
        let text = &line[first..end];
        let name = match number {
            0 => REFERER,
            1 => USER_AGENT,
            _ if is_address_list(text) => FORWARDED_FOR,
            _ => "",
        };
        if !name.is_empty() && !matches!(text, b"-" | b"") && fields.choice.contains(name.as_bytes()) {
            let length = unescape_log(&mut line[first..end], false);
            fields.push(FieldLabel::Fixed(name), ChunkSpan::new(start + first, start + first + length));
        }
        at = end + 1;
    }
}
