//! The formats of lines.

mod alb;
mod combined;
mod csv;
mod events;
mod json;
mod request_line;

use std::sync::Arc;

use self::alb::AlbParser;
use self::combined::CombinedParser;
use self::csv::CsvParser;
use self::events::EventsParser;
use self::json::{CaddyDialect, EnvoyDialect, JsonParser, NginxDialect, TraefikDialect};
use super::LogFormat;
use super::parse::{FieldChoice, ParsedLines};

pub(super) use self::csv::CsvColumns;

/// The format of one log.
#[derive(Clone, Debug)]
pub(super) enum LineFormat {
    /// CSV, with the columns of the first line.
    Csv(Arc<CsvColumns>),
    /// Another format, whose lines can be parsed on their own.
    Plain(LogFormat),
}

impl LineFormat {
    /// Returns the format of a log that begins with these lines.
    ///
    /// # Errors
    ///
    /// A CSV header without a column for the time.
    pub(super) fn of(format: LogFormat, first_lines: &[u8]) -> Result<LineFormat, String> {
        match format {
            LogFormat::Csv => Ok(LineFormat::Csv(Arc::new(CsvColumns::from_header(first_lines)?))),
            _ => Ok(LineFormat::Plain(format)),
        }
    }

    pub(super) fn format(&self) -> LogFormat {
        match self {
            LineFormat::Csv(_) => LogFormat::Csv,
            LineFormat::Plain(format) => *format,
        }
    }

    /// Returns the names of the columns, to which fields refer.
    pub(super) fn columns(&self) -> Arc<[String]> {
        match self {
            LineFormat::Csv(columns) => columns.names(),
            LineFormat::Plain(_) => Arc::default(),
        }
    }

    /// Parses the lines of a block.
    pub(super) fn parse_lines(&self, block: &mut [u8], lines: &mut ParsedLines<'_>, choice: &FieldChoice) {
        match self {
            LineFormat::Csv(columns) => lines.parse(block, &mut CsvParser::new(columns, choice)),
            LineFormat::Plain(LogFormat::Combined | LogFormat::Auto | LogFormat::Csv) => {
                lines.parse(block, &mut CombinedParser::new(choice));
            }
            LineFormat::Plain(LogFormat::NginxJson) => lines.parse(block, &mut JsonParser::new(NginxDialect)),
            LineFormat::Plain(LogFormat::EnvoyJson) => lines.parse(block, &mut JsonParser::new(EnvoyDialect)),
            LineFormat::Plain(LogFormat::CaddyJson) => lines.parse(block, &mut JsonParser::new(CaddyDialect)),
            LineFormat::Plain(LogFormat::TraefikJson) => lines.parse(block, &mut JsonParser::new(TraefikDialect)),
            LineFormat::Plain(LogFormat::Alb) => lines.parse(block, &mut AlbParser::new(choice)),
            LineFormat::Plain(LogFormat::Events) => lines.parse(block, &mut EventsParser::default()),
        }
    }
}
