//! The view: a heading, the rates of the last minute, the rules and the clients.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph, Row, Sparkline, Table, Wrap};

use super::state::{ClientOrder, RuleOrder, TopState, TopTable};
use crate::remote::ServiceStatus;
use crate::workbench::table::{grouped, percent, printable};

const HELP: [(&str, &str); 10] = [
    ("q, Esc", "quit"),
    ("p, space", "pause and continue"),
    ("Tab", "change between rules and clients"),
    ("s", "sort by the next column"),
    ("r", "reverse the order"),
    ("/", "filter by name; Enter keeps it, Esc ends it"),
    ("↑ ↓", "scroll"),
    ("?", "help"),
    ("(7)", "what shadow rules would refuse"),
    ("", "any key closes this help"),
];

/// Draws the state.
pub(super) fn draw(state: &TopState, frame: &mut Frame<'_>) {
    let clients = u16::try_from(state.clients().len()).unwrap_or(u16::MAX).clamp(1, 8) + 2;
    let [heading, rates, rules, client_area, footer] = Layout::vertical([
        Constraint::Length(4),
        Constraint::Length(4),
        Constraint::Min(3),
        Constraint::Length(clients),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    draw_heading(state, frame, heading);
    draw_rates(state, frame, rates);
    draw_rules(state, frame, rules);
    draw_clients(state, frame, client_area);
    frame.render_widget(Paragraph::new(footer_line(state)), footer);
    if state.is_help_open {
        draw_help(frame);
    }
}

fn draw_heading(state: &TopState, frame: &mut Frame<'_>, area: Rect) {
    let Some(status) = &state.status else { return };
    let connection = match (&state.lost, state.is_paused) {
        (Some(_), _) => "connection lost, trying again".red().bold(),
        (None, true) => "paused".yellow().bold(),
        (None, false) => "live".green(),
    };
    let title = format!("tollgate {}  {}  ", printable(&status.version), state.url);
    let lines = vec![
        Line::from(vec![Span::from(title).bold(), connection]),
        Line::from(decision_words(status)),
        Line::from(vec![
            Span::from("store "),
            store_state(&status.store.state),
            Span::from(": "),
            Span::from(printable(&status.store.summary)),
        ]),
        Line::from(state.lost.as_ref().map_or_else(|| reload_words(status), |reason| printable(reason).red())),
    ];
    frame.render_widget(Paragraph::new(lines), area);
}

fn decision_words(status: &ServiceStatus) -> String {
    let (refused, all) = status.refused_share();
    format!("{} decisions/s   {} refused   latency {}", grouped(all), percent(refused, all), status.latency_words())
}

/// The state has a colour, and says the same in a word.
fn store_state(state: &str) -> Span<'static> {
    let text = printable(state);
    match state {
        "ok" => text.green(),
        "degraded" => text.yellow().bold(),
        _ => text.red().bold(),
    }
}

fn reload_words(status: &ServiceStatus) -> Span<'static> {
    match &status.policy.last_reload {
        Some(reload) if !reload.done => {
            format!("the reload at {} failed: the policy before it stays active", printable(&reload.time)).red()
        }
        _ => format!("policy loaded at {}", printable(&status.policy.loaded_at)).dim(),
    }
}

fn draw_rates(state: &TopState, frame: &mut Frame<'_>, area: Rect) {
    let [allowed, refused] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(area);
    let lists = &state.history;
    for (name, rates, colour, area) in
        [("allowed/s", &lists.allowed, Color::Green, allowed), ("refused/s", &lists.refused, Color::Red, refused)]
    {
        let most = rates.iter().max().copied().unwrap_or(0);
        let block =
            Block::new().borders(Borders::TOP).title(format!(" {name}, at most {} in this minute ", grouped(most)));
        let inner = block.inner(area);
        // The newest rate is at the right.
        let from = rates.len().saturating_sub(usize::from(inner.width));
        let drawn = Sparkline::default().data(&rates[from..]).max(most.max(1)).style(Style::new().fg(colour));
        frame.render_widget(drawn.block(block), area);
    }
}

fn draw_rules(state: &TopState, frame: &mut Frame<'_>, area: Rect) {
    let order = state.rule_order;
    let heading = [
        ("rule", order == RuleOrder::Name),
        ("limit", false),
        ("allowed/s", order == RuleOrder::Allowed),
        ("refused/s", order == RuleOrder::Refused),
        ("refused", false),
        ("headroom", order == RuleOrder::Headroom),
    ];
    let rules = state.rules();
    let rows = rules.iter().skip(first_row(state, TopTable::Rules)).map(|rule| {
        let shadow = rule.would_refuse_per_second > 0;
        let refused = grouped(rule.refused_per_second + rule.would_refuse_per_second);
        Row::new([
            Line::from(printable(&rule.rule)),
            Line::from(state.limit_of(&rule.rule).to_owned()),
            right(grouped(rule.allowed_per_second)),
            right(if shadow { format!("({refused})") } else { refused }),
            right(grouped(rule.refused + rule.would_refuse)),
            right(rule.headroom_percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent} %"))),
        ])
    });
    let widths = [
        Constraint::Fill(2),
        Constraint::Fill(2),
        Constraint::Length(11),
        Constraint::Length(11),
        Constraint::Length(10),
        Constraint::Length(10),
    ];
    let title = format!("rules ({})", rules.len());
    let table =
        Table::new(rows, widths).header(header(state, &heading, 2)).block(block(state, TopTable::Rules, &title));
    frame.render_widget(table, area);
}

fn draw_clients(state: &TopState, frame: &mut Frame<'_>, area: Rect) {
    let order = state.client_order;
    let heading = [
        ("client", false),
        ("rule", order == ClientOrder::Rule),
        ("refused/min", order == ClientOrder::Refused),
        ("last seen", order == ClientOrder::LastSeen),
    ];
    let clients = state.clients();
    let rows = clients.iter().skip(first_row(state, TopTable::Clients)).map(|client| {
        Row::new([
            Line::from(printable(&client.client)),
            Line::from(printable(&client.rule)),
            right(grouped(client.per_minute)),
            right(printable(&client.last_seen)),
        ])
    });
    let widths = [Constraint::Fill(1), Constraint::Fill(1), Constraint::Length(14), Constraint::Length(25)];
    let title = if clients.is_empty() { "no client is refused" } else { "clients with the most refused requests" };
    let block = block(state, TopTable::Clients, title);
    let table = Table::new(rows, widths).header(header(state, &heading, 2)).block(block);
    frame.render_widget(table, area);
}

/// Returns the names of the columns, with an arrow at the one that orders the rows. Columns of numbers begin at `numbers`.
fn header(state: &TopState, columns: &[(&'static str, bool)], numbers: usize) -> Row<'static> {
    let arrow = if state.is_reversed { "↑" } else { "↓" };
    let cells = columns.iter().enumerate().map(|(at, (name, orders))| {
        let name = if *orders { format!("{name} {arrow}") } else { (*name).to_owned() };
        if at < numbers { Line::from(name) } else { right(name) }
    });
    Row::new(cells.collect::<Vec<_>>()).style(Style::new().add_modifier(Modifier::DIM))
}

fn block(state: &TopState, table: TopTable, title: &str) -> Block<'static> {
    let title = if state.table == table { format!("▸ {title} ").bold() } else { format!("  {title} ").into() };
    Block::new().borders(Borders::TOP).title(title)
}

fn first_row(state: &TopState, table: TopTable) -> usize {
    if state.table == table { state.first_row } else { 0 }
}

fn footer_line(state: &TopState) -> Line<'static> {
    if state.is_typing_filter {
        return Line::from(format!("filter: {}▏ Enter keeps it, Esc ends it", printable(&state.filter)));
    }
    let filter =
        if state.filter.is_empty() { String::new() } else { format!("filter {}   ", printable(&state.filter)) };
    Line::from(vec![filter.yellow(), "q quit  p pause  Tab table  s sort  r reverse  / filter  ? help".dim()])
}

fn draw_help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let (width, height) = (area.width.min(56), area.height.min(HELP.len() as u16 + 2));
    let area = Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    let lines: Vec<Line<'_>> =
        HELP.iter().map(|(key, what)| Line::from(vec![format!("{key:>9}  ").bold(), Span::from(*what)])).collect();
    frame.render_widget(Clear, area);
    let block = Block::bordered().title("keys");
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(block), area);
}

fn right(text: String) -> Line<'static> {
    Line::from(text).right_aligned()
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent};
    use serde_json::json;

    use super::*;
    use crate::top::feed::FeedEvent;
    use crate::top::state::TopCommand;

    fn state() -> TopState {
        let rule = |name: &str, allowed: u64, refused: u64, would_refuse: u64, headroom: Option<u64>| {
            json!({
                "rule": name, "allowed_per_second": allowed, "refused_per_second": refused,
                "would_refuse_per_second": would_refuse, "allowed": allowed * 100, "refused": refused * 100,
                "would_refuse": would_refuse * 100, "headroom_percent": headroom,
            })
        };
        let client = |name: &str, rule: &str, count: u64, seen: &str| json!({ "rule": rule, "client": name, "count": count, "error": 0, "per_minute": count, "last_seen": seen });
        let status = json!({
            "version": "1.2.3", "started_at": "2026-01-01T00:00:00.000Z",
            "decisions": { "allowed_per_second": 1500, "refused_per_second": 500, "allowed": 1, "refused": 2 },
            "latency": { "p50_at_most_ns": 4000, "p99_at_most_ns": 64000 },
            "store": { "state": "ok", "summary": "Counters are in this process." },
            "rules": [
                rule("per-ip", 1500, 20, 0, Some(70)), rule("login", 3, 480, 0, Some(0)), rule("next", 900, 0, 7, None),
            ],
            "omitted_rules": 0,
            "clients": [
                client("aa:1", "per-ip", 40, "2026-01-01T00:00:09.000Z"),
                client("bb\u{1b}[2J", "login", 9000, "2026-01-01T00:00:08.000Z"),
            ],
            "policy": { "fingerprint": "f", "loaded_at": "2026-01-01T00:00:00.000Z", "last_reload": null },
        });
        let mut state = TopState::new("http://127.0.0.1:9099".to_owned());
        state.apply(FeedEvent::Status(Box::new(serde_json::from_value(status).unwrap())));
        let limits = [("per-ip", "60/min"), ("login", "5/min and 1 more"), ("next", "30/min (shadow)")];
        state.apply(FeedEvent::Limits(limits.map(|(rule, limit)| (rule.to_owned(), limit.to_owned())).into()));
        state
    }

    fn press(state: &mut TopState, keys: &[KeyCode]) {
        for key in keys {
            assert_eq!(state.press(KeyEvent::from(*key)), TopCommand::Continue);
        }
    }

    /// Returns the lines that are drawn.
    fn screen(state: &TopState, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(state, frame)).unwrap();
        let cells = terminal.backend().buffer().content();
        let lines = cells.chunks(usize::from(width));
        lines.map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned()).collect()
    }

    #[test]
    fn screen_has_rates_rules_and_clients() {
        let expected = "\
tollgate 1.2.3  http://127.0.0.1:9099  live
2,000 decisions/s   25 % refused   latency p50 ≤ 4 µs, p99 ≤ 64 µs
store ok: Counters are in this process.
policy loaded at 2026-01-01T00:00:00.000Z
 allowed/s, at most 1,500 in this minute refused/s, at most 500 in this minute ─
█                                       █
█                                       █
█                                       █
▸ rules (3) ────────────────────────────────────────────────────────────────────
rule              limit              allowed/s   refused/s    refused   headroom
per-ip            60/min                 1,500          20      2,000       70 %
login             5/min and 1 more           3         480     48,000        0 %
next              30/min (shadow)          900         (7)        700          -

  clients with the most refused requests ───────────────────────────────────────
client              rule                 refused/min ↓                 last seen
bb\u{fffd}[2J              login                        9,000  2026-01-01T00:00:08.000Z
aa:1                per-ip                          40  2026-01-01T00:00:09.000Z
q quit  p pause  Tab table  s sort  r reverse  / filter  ? help";
        let shown = screen(&state(), 80, 19).join("\n");
        assert_eq!(shown, expected, "\n{shown}");
    }

    #[test]
    fn keys_sort_filter_pause_and_explain() {
        let rules = |state: &TopState| state.rules().iter().map(|rule| rule.rule.clone()).collect::<Vec<_>>();
        let mut state = state();
        press(&mut state, &[KeyCode::Char('s')]);
        assert_eq!(rules(&state), ["login", "per-ip", "next"]);
        press(&mut state, &[KeyCode::Char('r')]);
        assert_eq!(rules(&state), ["next", "per-ip", "login"]);
        press(&mut state, &[KeyCode::Char('/'), KeyCode::Char('L'), KeyCode::Char('o'), KeyCode::Enter]);
        assert_eq!(rules(&state), ["login"]);
        assert_eq!(state.clients().len(), 1, "clients of a rule that matches");
        press(&mut state, &[KeyCode::Char('/'), KeyCode::Esc, KeyCode::Tab, KeyCode::Char('s')]);
        assert_eq!(state.clients()[0].client, "aa:1", "the client that was seen last");
        press(&mut state, &[KeyCode::Char('p')]);
        let before = state.status.clone().unwrap();
        let mut later = before.clone();
        later.decisions.allowed_per_second = 9;
        state.apply(FeedEvent::Status(later.clone()));
        assert!(screen(&state, 60, 20)[0].ends_with("paused"));
        assert!(screen(&state, 60, 20)[1].starts_with("2,000 decisions/s"));
        press(&mut state, &[KeyCode::Char('p')]);
        state.apply(FeedEvent::Status(later));
        assert!(screen(&state, 60, 20)[1].starts_with("509 decisions/s"));
        state.apply(FeedEvent::Lost("connection refused".to_owned()));
        let shown = screen(&state, 80, 20);
        assert!(shown[0].ends_with("  connection lost, trying again") && shown[3] == "connection refused", "{shown:?}");
        press(&mut state, &[KeyCode::Char('?')]);
        assert!(screen(&state, 80, 24).iter().any(|line| line.contains("what shadow rules would refuse")));
        press(&mut state, &[KeyCode::Char('x')]);
        assert_eq!(state.press(KeyEvent::from(KeyCode::Char('q'))), TopCommand::Quit);
    }

    #[test]
    fn small_terminals_are_drawn() {
        for (width, height) in [(1, 1), (10, 3), (20, 8), (300, 5)] {
            let mut state = state();
            screen(&state, width, height);
            press(&mut state, &[KeyCode::Char('?')]);
            screen(&state, width, height);
        }
    }
}
