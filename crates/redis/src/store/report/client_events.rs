//! Events of the clients of a store.

use std::sync::Arc;

use crate::store::OnStoreEvent;
use crate::store::report::stats::StoreEvent;
use crate::wire::{ClientEvent, OnClientEvent};

/// Returns the callback for the events of a client of the store.
pub(crate) fn on_client_event(on_event: &Arc<OnStoreEvent>) -> OnClientEvent {
    let on_event = Arc::clone(on_event);
    Arc::new(move |event| {
        on_event(match event {
            ClientEvent::PasswordUnreadable { file, why } => StoreEvent::PasswordUnreadable { file, why },
            ClientEvent::PasswordReadable { file } => StoreEvent::PasswordReadable { file },
            ClientEvent::BelongsToCluster { server } => StoreEvent::WrongMode { server },
        });
    })
}
