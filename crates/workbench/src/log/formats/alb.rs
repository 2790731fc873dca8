//! The access log of an AWS Application Load Balancer: words and quoted texts, separated by spaces.

use memchr::memchr;

use super::combined::quoted_end;
use super::request_line::read_request_line;
use crate::log::chunk::{ChunkSpan, FieldLabel, ParsedRecord};
use crate::log::parse::{FieldChoice, FieldCollector, LineContent, LineParser};
use crate::log::text::{TimeParser, parse_address, split_port, unescape_log};

const USER_AGENT: &str = "user-agent";

/// The fields by position. The log is written when a request ends; the time of its arrival is near the end of the line.
mod column {
    pub(super) const TYPE: usize = 0;
    pub(super) const TIME: usize = 1;
    pub(super) const CLIENT: usize = 3;
    pub(super) const STATUS: usize = 8;
    pub(super) const REQUEST: usize = 12;
    pub(super) const USER_AGENT: usize = 13;
    pub(super) const DOMAIN: usize = 18;
    pub(super) const ARRIVAL: usize = 21;
}

/// Parses the access log of an Application Load Balancer.
pub(super) struct AlbParser {
    times: TimeParser,
    reads_user_agent: bool,
}

impl AlbParser {
    pub(super) fn new(choice: &FieldChoice) -> AlbParser {
        AlbParser { times: TimeParser::default(), reads_user_agent: choice.contains(USER_AGENT.as_bytes()) }
    }
}

impl LineParser for AlbParser {
    fn parse(
        &mut self,
        line: &mut [u8],
        start: usize,
        record: &mut ParsedRecord,
        fields: &mut FieldCollector<'_>,
    ) -> Result<LineContent, &'static str> {
        let mut at = 0;
        let mut count = 0;
        while at < line.len() && count <= column::ARRIVAL {
            let (from, to, next) = next_word(line, at).ok_or("a quoted field does not end with a quote and a space")?;
            let text = &mut line[from..to];
            match count {
                column::TYPE if !matches!(&*text, b"http" | b"https" | b"h2" | b"grpcs" | b"ws" | b"wss") => {
                    return Err("expected http, https, h2, grpcs, ws or wss");
                }
                column::TIME => record.time_ns = self.times.rfc3339(text).ok_or("the time is not in RFC 3339")?,
                column::CLIENT => record.client_ip = Some(parse_address(text).ok_or("the client is not an address")?),
                column::STATUS => record.status = status(text).ok_or("the status is not a number")?,
                column::REQUEST => read_url(text, start + from, record),
                column::USER_AGENT if self.reads_user_agent && *text != *b"-" => {
                    let length = unescape_log(text, false);
                    let value = ChunkSpan::new(start + from, start + from + length);
                    fields.push(FieldLabel::Fixed(USER_AGENT), value);
                }
                column::DOMAIN if !matches!(&*text, b"-" | b"") => {
                    record.host = ChunkSpan::new(start + from, start + to);
                }
                column::ARRIVAL => record.time_ns = self.times.rfc3339(text).unwrap_or(record.time_ns),
                _ => {}
            }
            (at, count) = (next, count + 1);
        }
        if count <= column::REQUEST { Err("expected at least 13 fields") } else { Ok(LineContent::Request) }
    }
}

/// Returns where the word at a position begins and ends, without its quotes, and where the next one begins.
fn next_word(line: &[u8], at: usize) -> Option<(usize, usize, usize)> {
    if line[at] == b'"' {
        let end = quoted_end(line, at + 1)?;
        // The next word would begin within a character, if the closing quote were not followed by a space.
        let is_closed = matches!(line.get(end + 1), None | Some(b' '));
        return is_closed.then_some((at + 1, end, end + 2));
    }
    let end = memchr(b' ', &line[at..]).map_or(line.len(), |length| at + length);
    Some((at, end, end + 1))
}

fn status(text: &[u8]) -> Option<u16> {
    match text {
        b"-" => Some(0),
        [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] => {
            Some(u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0'))
        }
        _ => None,
    }
}

/// Reads a request line with a whole URL: `GET http://example.com:80/a?b HTTP/1.1`.
fn read_url(text: &mut [u8], start: usize, record: &mut ParsedRecord) {
    let Some(method) = memchr(b' ', text) else { return };
    let url = &text[method + 1..];
    let Some(scheme) = memchr::memmem::find(url, b"://") else {
        return read_request_line(text, start, record);
    };
    let host = method + 1 + scheme + 3;
    let rest = &text[host..];
    let path = host + rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b' ')).unwrap_or(rest.len());
    let end = memchr::memrchr(b' ', &text[path..]).map_or(text.len(), |space| path + space);
    record.method = ChunkSpan::new(start, start + method);
    if text[host..path] != *b"-" {
        record.host = ChunkSpan::new(start + host, start + host + split_port(&text[host..path]));
    }
    let length = unescape_log(&mut text[path..end], true);
    record.target = ChunkSpan::new(start + path, start + path + length);
}
