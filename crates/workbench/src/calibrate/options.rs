//! What to calibrate, and for which share of the clients.

use std::fmt;

use crate::record::LogRecord;
use crate::tally::client_index::ClientIndex;
use crate::tally::endpoint_index::path_of;
use crate::tally::quantiles::WHOLE_PPM;

/// What limits are proposed, and from what they are derived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalibrationOptions {
    /// The keys by which the proposed rules count.
    pub keys: Vec<CalibrationKey>,
    /// The share of the well-behaved clients that must never be refused, in parts per million.
    pub share_ppm: u32,
    /// How much above the observed need a limit is, in percent.
    pub margin_percent: u32,
}

impl Default for CalibrationOptions {
    fn default() -> CalibrationOptions {
        CalibrationOptions {
            keys: vec![CalibrationKey::ClientIp],
            share_ppm: WHOLE_PPM / 1_000 * 999,
            margin_percent: 20,
        }
    }
}

/// A value of requests by which a rule counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CalibrationKey {
    /// The client's address.
    ClientIp,
    /// The user.
    User,
    /// The host.
    Host,
    /// The path, without its query.
    Path,
    /// A field of the log.
    Field(String),
}

impl CalibrationKey {
    /// Reads the name of a key; `None` if it cannot be the name of an identity.
    #[must_use]
    pub fn parse(name: &str) -> Option<CalibrationKey> {
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
        let starts_with_letter = name.starts_with(|c: char| c.is_ascii_lowercase());
        match name {
            "client_ip" => Some(CalibrationKey::ClientIp),
            "user" => Some(CalibrationKey::User),
            "host" => Some(CalibrationKey::Host),
            "path" => Some(CalibrationKey::Path),
            "method" | "route" | "tier" => None,
            name if starts_with_letter && name.chars().all(is_name) => Some(CalibrationKey::Field(name.to_owned())),
            _ => None,
        }
    }

    /// Returns the name of the identity in a policy.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            CalibrationKey::ClientIp => "client_ip",
            CalibrationKey::User => "user",
            CalibrationKey::Host => "host",
            CalibrationKey::Path => "path",
            CalibrationKey::Field(name) => name,
        }
    }

    /// Whether a policy must declare where the identity comes from.
    pub(super) fn is_declared(&self) -> bool {
        matches!(self, CalibrationKey::User | CalibrationKey::Field(_))
    }

    /// Returns the number of the client of a request; `None` if the request lacks the key.
    #[inline]
    pub(super) fn client(&self, record: &LogRecord<'_>, clients: &mut ClientIndex) -> Option<u32> {
        let text = match self {
            CalibrationKey::ClientIp => return record.client_ip.map(|ip| clients.address(ip)),
            CalibrationKey::User => record.user?,
            CalibrationKey::Host => record.host?,
            CalibrationKey::Path => Some(path_of(record.target)).filter(|path| !path.is_empty())?,
            CalibrationKey::Field(name) => record.fields.iter().find(|(known, _)| known == name)?.1,
        };
        Some(clients.text(text))
    }
}

impl fmt::Display for CalibrationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_read_from_the_name_of_an_identity() {
        for name in ["client_ip", "user", "host", "path", "api-key"] {
            assert_eq!(CalibrationKey::parse(name).unwrap().name(), name);
        }
        for invalid in ["", "method", "Api", "1st", "a b", "a:b"] {
            assert_eq!(CalibrationKey::parse(invalid), None, "{invalid}");
        }
    }
}
