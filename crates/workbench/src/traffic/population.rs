//! A population of clients whose behaviour is known: ordinary ones, scrapers and credential stuffers.

use std::net::{IpAddr, Ipv4Addr};

use super::random::SeededRandom;
use crate::record::LogRecord;
use crate::utc_time::UtcTime;

const SECOND_NS: u64 = 1_000_000_000;

/// The behaviour of a generated client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientBehaviour {
    /// Sends at random times with a constant mean rate: 6 requests a minute.
    Poisson,
    /// Sends some 20 requests within seconds, as a browser that loads a page, then pauses for a minute.
    OnOff,
    /// Reads product pages at 20 a second without a pause.
    Scraper,
    /// Attempts logins with stolen passwords, 3 a second.
    Stuffer,
}

impl ClientBehaviour {
    /// Whether the client is one that limits should not refuse.
    #[must_use]
    pub fn is_ordinary(self) -> bool {
        matches!(self, ClientBehaviour::Poisson | ClientBehaviour::OnOff)
    }
}

/// The numbers of clients by behaviour, and the time in which they send.
#[derive(Clone, Copy, Debug)]
pub struct Population {
    /// The seed. Equal populations send equal requests.
    pub seed: u64,
    /// The number of clients that send at random.
    pub poisson_clients: u32,
    /// The number of clients that load pages.
    pub on_off_clients: u32,
    /// The number of scrapers.
    pub scrapers: u32,
    /// The number of credential stuffers.
    pub stuffers: u32,
    /// The time of the first requests, in nanoseconds since 1970.
    pub start_ns: u64,
    /// The time in which the clients send, in seconds.
    pub duration_s: u64,
}

/// A request of a generated client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedRequest {
    /// The time in nanoseconds since 1970.
    pub time_ns: u64,
    /// The client's address.
    pub client_ip: IpAddr,
    /// The client's behaviour.
    pub behaviour: ClientBehaviour,
    /// The method.
    pub method: &'static str,
    /// The path.
    pub path: String,
    /// The status of the response.
    pub status: u16,
}

impl Population {
    /// Returns all requests in the order of time.
    #[must_use]
    pub fn requests(&self) -> Vec<GeneratedRequest> {
        let behaviours = [
            (ClientBehaviour::Poisson, self.poisson_clients),
            (ClientBehaviour::OnOff, self.on_off_clients),
            (ClientBehaviour::Scraper, self.scrapers),
            (ClientBehaviour::Stuffer, self.stuffers),
        ];
        let clients = behaviours.into_iter().flat_map(|(behaviour, count)| (0..count).map(move |_| behaviour));
        let mut requests = Vec::new();
        for (number, behaviour) in (0..).zip(clients) {
            let client_ip = IpAddr::V4(Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 1).to_bits() + number));
            let random = SeededRandom::new(self.seed.wrapping_mul(1_000_003) + u64::from(number));
            let mut client = Client { client_ip, behaviour, random, requests: &mut requests };
            client.send(self.start_ns, self.start_ns + self.duration_s * SECOND_NS);
        }
        requests.sort_by_key(|request| (request.time_ns, request.client_ip));
        requests
    }
}

impl GeneratedRequest {
    /// Returns the request as a record of a log.
    #[must_use]
    pub fn record(&self) -> LogRecord<'_> {
        LogRecord {
            time_ns: self.time_ns,
            client_ip: Some(self.client_ip),
            method: self.method,
            target: &self.path,
            status: Some(self.status),
            ..LogRecord::default()
        }
    }

    /// Returns the request as a line of a log in the combined format, which has times in whole seconds.
    #[must_use]
    pub fn combined_line(&self) -> String {
        let GeneratedRequest { client_ip, method, path, status, .. } = self;
        let time = UtcTime::from_ns(self.time_ns).combined();
        format!("{client_ip} - - [{time}] \"{method} {path} HTTP/1.1\" {status} 512 \"-\" \"generated\"")
    }
}

struct Client<'a> {
    client_ip: IpAddr,
    behaviour: ClientBehaviour,
    random: SeededRandom,
    requests: &'a mut Vec<GeneratedRequest>,
}

impl Client<'_> {
    fn send(&mut self, start_ns: u64, end_ns: u64) {
        let mut time_ns = start_ns + self.random.below(60 * SECOND_NS);
        if self.behaviour.is_ordinary() {
            self.log_in(time_ns, end_ns);
        }
        let mut left_in_burst = 0;
        while time_ns < end_ns {
            self.request(time_ns);
            let gap_ns = match self.behaviour {
                ClientBehaviour::Poisson => 10 * SECOND_NS,
                ClientBehaviour::Scraper => SECOND_NS / 20,
                ClientBehaviour::Stuffer => SECOND_NS / 3,
                ClientBehaviour::OnOff if left_in_burst > 0 => {
                    left_in_burst -= 1;
                    SECOND_NS / 5
                }
                ClientBehaviour::OnOff => {
                    left_in_burst = 10 + self.random.below(20);
                    60 * SECOND_NS
                }
            };
            time_ns += self.random.exponential(gap_ns).max(1_000);
        }
    }

    /// Attempts to log in once, or up to three times with a wrong password.
    fn log_in(&mut self, time_ns: u64, end_ns: u64) {
        let attempts = if self.random.below(10) == 0 { 2 + self.random.below(2) } else { 1 };
        for attempt in 1..=attempts {
            let at_ns = time_ns + attempt * 4 * SECOND_NS;
            if at_ns < end_ns {
                self.push(at_ns, "POST", "/auth/login".to_owned(), if attempt < attempts { 401 } else { 200 });
            }
        }
    }

    fn request(&mut self, time_ns: u64) {
        let page = self.random.below(5_000);
        match self.behaviour {
            ClientBehaviour::Scraper => self.push(time_ns, "GET", format!("/products/{page}"), 200),
            ClientBehaviour::Stuffer => self.push(time_ns, "POST", "/auth/login".to_owned(), 401),
            ClientBehaviour::Poisson | ClientBehaviour::OnOff => match self.random.below(20) {
                0 => self.push(time_ns, "POST", "/cart/items".to_owned(), 201),
                1..=5 => self.push(time_ns, "GET", format!("/search?q={page}"), 200),
                6..=12 => self.push(time_ns, "GET", format!("/products/{page}"), 200),
                _ => self.push(time_ns, "GET", "/".to_owned(), 200),
            },
        }
    }

    fn push(&mut self, time_ns: u64, method: &'static str, path: String, status: u16) {
        let (client_ip, behaviour) = (self.client_ip, self.behaviour);
        self.requests.push(GeneratedRequest { time_ns, client_ip, behaviour, method, path, status });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POPULATION: Population = Population {
        seed: 1,
        poisson_clients: 20,
        on_off_clients: 20,
        scrapers: 1,
        stuffers: 1,
        start_ns: 1_767_225_600 * SECOND_NS,
        duration_s: 600,
    };

    #[test]
    fn clients_send_at_the_rates_of_their_behaviours() {
        let requests = POPULATION.requests();
        let count = |behaviour| requests.iter().filter(|request| request.behaviour == behaviour).count();
        assert!((900..1_500).contains(&count(ClientBehaviour::Poisson)), "{}", count(ClientBehaviour::Poisson));
        assert!((10_000..13_000).contains(&count(ClientBehaviour::Scraper)), "{}", count(ClientBehaviour::Scraper));
        assert!((1_500..2_000).contains(&count(ClientBehaviour::Stuffer)), "{}", count(ClientBehaviour::Stuffer));
        assert!(requests.is_sorted_by_key(|request| request.time_ns));
        assert_eq!(requests, POPULATION.requests());
    }

    #[test]
    fn combined_line_has_the_parts_of_a_request() {
        let request = GeneratedRequest {
            time_ns: 1_767_225_661 * SECOND_NS,
            client_ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
            behaviour: ClientBehaviour::Poisson,
            method: "GET",
            path: "/".to_owned(),
            status: 200,
        };
        let expected = "127.0.0.1 - - [01/Jan/2026:00:01:01 +0000] \"GET / HTTP/1.1\" 200 512 \"-\" \"generated\"";
        assert_eq!(request.combined_line(), expected);
    }
}
