//! `tollgate top`: a live view of a running service in the terminal.

mod feed;
mod state;
mod view;

use std::io::{self, IsTerminal};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::exit::{Exit, Failure};
use crate::output;
use crate::remote::AdminServiceArguments;
use crate::status::{page, read_status};
use feed::FeedEvent;
use state::{TopCommand, TopState};

/// How often received statuses are shown, and the longest delay of a key.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Watch a running service in the terminal
///
/// Shows decisions, rules and the clients that are refused most, once a second.
/// Press ? for the keys. If stdout is not a terminal, the state is printed once.
#[derive(Debug, Args)]
pub(crate) struct TopArguments {
    #[command(flatten)]
    service: AdminServiceArguments,
}

pub(crate) fn top(arguments: &TopArguments) -> Result<Exit, Failure> {
    let connection = arguments.service.connection()?;
    // A service that cannot be reached is an error now; later it is shown.
    let (status, _) = read_status(&connection)?;
    if !io::stdout().is_terminal() {
        output::print(&page(&status, &connection.url))?;
        return Ok(Exit::Done);
    }
    let mut state = TopState::new(connection.url.to_string());
    state.apply(FeedEvent::Status(Box::new(status)));
    let (sender, events) = channel();
    feed::start(connection, sender);
    feed::exit_on_signal();
    let shown = show(&mut state, &events);
    ratatui::restore();
    shown.map_err(|error| Failure::failed(format!("cannot use the terminal: {error}")))?;
    Ok(Exit::Done)
}

/// Shows the state until the user ends it.
fn show(state: &mut TopState, events: &Receiver<FeedEvent>) -> io::Result<()> {
    let mut terminal = ratatui::try_init()?;
    loop {
        terminal.draw(|frame| view::draw(state, frame))?;
        if event::poll(POLL_INTERVAL)? {
            match event::read()? {
                Event::Key(key) if key.kind == KeyEventKind::Press && state.press(key) == TopCommand::Quit => {
                    return Ok(());
                }
                _ => {}
            }
        }
        events.try_iter().for_each(|received| state.apply(received));
    }
}
