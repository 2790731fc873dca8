//! The state of the view: what was received, and how it is sorted and filtered.

use std::cmp::Reverse;
use std::collections::HashMap;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::feed::FeedEvent;
use crate::remote::{RateLists, RefusedClientStatus, RuleStatus, ServiceStatus};

/// The decisions a second that are drawn: a minute.
const HISTORY_LENGTH: usize = 60;

/// The longest filter.
const MAX_FILTER_LETTERS: usize = 64;

/// What a key asks of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TopCommand {
    Continue,
    Quit,
}

/// The table that keys change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TopTable {
    Rules,
    Clients,
}

/// The order of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleOrder {
    Policy,
    Name,
    Allowed,
    Refused,
    Headroom,
}

/// The order of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientOrder {
    Refused,
    LastSeen,
    Rule,
}

#[derive(Debug)]
pub(super) struct TopState {
    pub(super) url: String,
    /// The status that is shown: the latest one, unless the view is paused.
    pub(super) status: Option<Box<ServiceStatus>>,
    pub(super) history: RateLists,
    limits: HashMap<String, String>,
    /// Why the connection was lost; `None` while it lasts.
    pub(super) lost: Option<String>,
    pub(super) is_paused: bool,
    pub(super) is_help_open: bool,
    pub(super) is_typing_filter: bool,
    pub(super) filter: String,
    pub(super) table: TopTable,
    pub(super) rule_order: RuleOrder,
    pub(super) client_order: ClientOrder,
    pub(super) is_reversed: bool,
    /// The first shown row of the table that keys change.
    pub(super) first_row: usize,
}

impl TopState {
    pub(super) fn new(url: String) -> TopState {
        TopState {
            url,
            status: None,
            history: RateLists::default(),
            limits: HashMap::new(),
            lost: None,
            is_paused: false,
            is_help_open: false,
            is_typing_filter: false,
            filter: String::new(),
            table: TopTable::Rules,
            rule_order: RuleOrder::Policy,
            client_order: ClientOrder::Refused,
            is_reversed: false,
            first_row: 0,
        }
    }

    /// Takes over what was received. A paused view only notes whether the service can be reached.
    pub(super) fn apply(&mut self, event: FeedEvent) {
        match event {
            FeedEvent::Lost(reason) => self.lost = Some(reason),
            FeedEvent::Limits(limits) => self.limits = limits.into_iter().collect(),
            FeedEvent::History(lists) => {
                self.lost = None;
                if !self.is_paused {
                    self.history = lists;
                }
            }
            FeedEvent::Status(status) => {
                self.lost = None;
                if !self.is_paused {
                    push(&mut self.history.allowed, status.decisions.allowed_per_second);
                    push(&mut self.history.refused, status.decisions.refused_per_second);
                    self.status = Some(status);
                }
            }
        }
    }

    /// Handles a key.
    pub(super) fn press(&mut self, key: KeyEvent) -> TopCommand {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return TopCommand::Quit;
        }
        if self.is_typing_filter {
            self.type_filter(key.code);
            return TopCommand::Continue;
        }
        if self.is_help_open {
            self.is_help_open = false;
            return TopCommand::Continue;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return TopCommand::Quit,
            KeyCode::Char('?' | 'h') => self.is_help_open = true,
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('/') => self.is_typing_filter = true,
            KeyCode::Char('r') => self.is_reversed = !self.is_reversed,
            KeyCode::Char('s') => self.next_order(),
            KeyCode::Tab => {
                self.table = match self.table {
                    TopTable::Rules => TopTable::Clients,
                    TopTable::Clients => TopTable::Rules,
                };
                (self.first_row, self.is_reversed) = (0, false);
            }
            KeyCode::Up => self.first_row = self.first_row.saturating_sub(1),
            KeyCode::Down => self.scroll_down(1),
            KeyCode::PageUp => self.first_row = self.first_row.saturating_sub(10),
            KeyCode::PageDown => self.scroll_down(10),
            KeyCode::Home => self.first_row = 0,
            _ => {}
        }
        TopCommand::Continue
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing_filter = false,
            KeyCode::Esc => {
                self.is_typing_filter = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) if self.filter.chars().count() < MAX_FILTER_LETTERS => self.filter.push(letter),
            _ => {}
        }
        self.first_row = 0;
    }

    fn next_order(&mut self) {
        self.is_reversed = false;
        match self.table {
            TopTable::Rules => {
                self.rule_order = match self.rule_order {
                    RuleOrder::Policy => RuleOrder::Refused,
                    RuleOrder::Refused => RuleOrder::Allowed,
                    RuleOrder::Allowed => RuleOrder::Headroom,
                    RuleOrder::Headroom => RuleOrder::Name,
                    RuleOrder::Name => RuleOrder::Policy,
                };
            }
            TopTable::Clients => {
                self.client_order = match self.client_order {
                    ClientOrder::Refused => ClientOrder::LastSeen,
                    ClientOrder::LastSeen => ClientOrder::Rule,
                    ClientOrder::Rule => ClientOrder::Refused,
                };
            }
        }
    }

    fn scroll_down(&mut self, rows: usize) {
        let count = match self.table {
            TopTable::Rules => self.rules().len(),
            TopTable::Clients => self.clients().len(),
        };
        self.first_row = (self.first_row + rows).min(count.saturating_sub(1));
    }

    /// Returns the rules that match the filter, in their order.
    pub(super) fn rules(&self) -> Vec<&RuleStatus> {
        let all = self.status.iter().flat_map(|status| &status.rules);
        let mut rules: Vec<&RuleStatus> = all.filter(|rule| self.matches(&[&rule.rule])).collect();
        match self.rule_order {
            RuleOrder::Policy => {}
            RuleOrder::Name => rules.sort_by_key(|rule| &rule.rule),
            RuleOrder::Allowed => rules.sort_by_key(|rule| Reverse(rule.allowed_per_second)),
            RuleOrder::Refused => {
                rules.sort_by_key(|rule| {
                    Reverse((rule.refused_per_second + rule.would_refuse_per_second, rule.refused + rule.would_refuse))
                });
            }
            // Unknown headroom comes last.
            RuleOrder::Headroom => rules.sort_by_key(|rule| rule.headroom_percent.unwrap_or(u64::MAX)),
        }
        if self.is_reversed && self.table == TopTable::Rules {
            rules.reverse();
        }
        rules
    }

    /// Returns the clients that match the filter, in their order.
    pub(super) fn clients(&self) -> Vec<&RefusedClientStatus> {
        let all = self.status.iter().flat_map(|status| &status.clients);
        let mut clients: Vec<&RefusedClientStatus> =
            all.filter(|client| self.matches(&[&client.client, &client.rule])).collect();
        match self.client_order {
            ClientOrder::Refused => clients.sort_by_key(|client| Reverse(client.count)),
            // Times of one length and zone sort as texts.
            ClientOrder::LastSeen => clients.sort_by(|one, other| other.last_seen.cmp(&one.last_seen)),
            ClientOrder::Rule => clients.sort_by_key(|client| &client.rule),
        }
        if self.is_reversed && self.table == TopTable::Clients {
            clients.reverse();
        }
        clients
    }

    /// Returns the limit of a rule; empty before it is known.
    pub(super) fn limit_of(&self, rule: &str) -> &str {
        self.limits.get(rule).map_or("", String::as_str)
    }

    fn matches(&self, texts: &[&str]) -> bool {
        let filter = self.filter.to_lowercase();
        texts.iter().any(|text| text.to_lowercase().contains(&filter))
    }
}

fn push(rates: &mut Vec<u64>, newest: u64) {
    rates.push(newest);
    let surplus = rates.len().saturating_sub(HISTORY_LENGTH);
    rates.drain(..surplus);
}
