//! Events of the synchronisation with other regions: what has changed between two readings of its state.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::regions::{
    Exchange, MissingShare, RegionDivision, RegionSettings, RegionState, RegionStatus, read_awaited_votes,
};
use crate::store::report::stats::StoreEvent;

/// The interval of readings. What lasts for less is not reported.
const READ_INTERVAL: Duration = Duration::from_millis(100);
/// The silence of the global server after which it is reported.
const SILENCE: Duration = Duration::from_secs(1);
/// The time after the start at which a share that was never known is reported as missing.
const FIRST_SHARE: Duration = Duration::from_secs(5);

/// A store that synchronises with other regions.
pub(crate) trait RegionalStore: Send + Sync {
    /// Returns the state of the synchronisation and its settings; `None` if the store has no regions.
    fn regions(&self) -> Option<(&RegionState, &RegionSettings)>;

    /// Reports an event to the owner of the store.
    fn report(&self, event: StoreEvent);
}

/// Reads the state of the synchronisation until the store is dropped, and reports its changes.
pub(crate) async fn report_region_events(store: Weak<impl RegionalStore>, exchange: Arc<dyn Exchange>) {
    let mut changes = RegionChanges::default();
    let mut votes_read_at = None;
    while let Some(store) = store.upgrade() {
        let Some((regions, settings)) = store.regions() else { return };
        let status = regions.status();
        changes.next(&status, &settings.global.nodes).into_iter().for_each(|event| store.report(event));
        let agreed = status.agreed.as_ref().filter(|_| status.is_division_pending());
        let are_votes_old = votes_read_at.is_none_or(|at: Instant| at.elapsed() >= status.epoch);
        match agreed {
            None if status.awaited_votes.is_some() => regions.note_awaited_votes(None),
            Some(agreed) if are_votes_old => {
                votes_read_at = Some(Instant::now());
                if let Some(awaited) = read_awaited_votes(&*exchange, settings, agreed).await {
                    regions.note_awaited_votes(Some(awaited));
                }
            }
            _ => {}
        }
        drop(store);
        sleep(READ_INTERVAL).await;
    }
}

/// What was reported last.
#[derive(Debug, Default)]
struct RegionChanges {
    is_synced: bool,
    is_global_unreached: bool,
    missing_share: Option<MissingShare>,
    /// The reports of a second instance that were counted when they were reported.
    second_instance_reports: u64,
    /// The weights that were agreed when the policy's were pending, and the regions that were waited for.
    pending: Option<(RegionDivision, Vec<String>)>,
}

impl RegionChanges {
    /// Returns the events that follow from a state.
    fn next(&mut self, status: &RegionStatus, servers: &[String]) -> Vec<StoreEvent> {
        let events = [
            self.global(status, servers),
            self.first_sync(status),
            self.missing_share(status),
            self.second_instance(status),
            self.weights(status),
        ];
        events.into_iter().flatten().collect()
    }

    fn global(&mut self, status: &RegionStatus, servers: &[String]) -> Option<StoreEvent> {
        let is_unreached = status.global_silent_for.is_some_and(|silence| silence >= SILENCE);
        // The silence ends with a reply.
        let is_reached = status.global_silent_for.is_none();
        if is_unreached && !self.is_global_unreached {
            self.is_global_unreached = true;
            // Before the first reply, other regions may have all but the reserve.
            let rate = status.share.map(|share| if status.synced_before.is_some() { share } else { status.reserve });
            return Some(StoreEvent::GlobalUnreached {
                servers: servers.to_vec(),
                region: status.region.clone(),
                rate,
            });
        }
        if is_reached && self.is_global_unreached {
            self.is_global_unreached = false;
            return Some(StoreEvent::GlobalReached { servers: servers.to_vec() });
        }
        None
    }

    fn first_sync(&mut self, status: &RegionStatus) -> Option<StoreEvent> {
        let (Some(share), Some(_), Some(division), false) =
            (status.share, status.synced_before, &status.agreed, self.is_synced)
        else {
            return None;
        };
        self.is_synced = true;
        Some(StoreEvent::RegionSynced { region: status.region.clone(), share, division: division.clone() })
    }

    fn missing_share(&mut self, status: &RegionStatus) -> Option<StoreEvent> {
        let region = status.region.clone();
        if let Some(share) = status.share {
            self.missing_share.take()?;
            return Some(StoreEvent::ShareRestored { region, share });
        }
        let why = status.missing_share?;
        let is_new = self.missing_share != Some(why);
        // At the start a share has to be read first. Without one that is agreed, the global server is unreached.
        let is_certain = self.is_synced || why == MissingShare::NotMember || status.opened_before >= FIRST_SHARE;
        if !is_new || !is_certain || (why == MissingShare::NothingAgreed && self.is_global_unreached) {
            return None;
        }
        self.missing_share = Some(why);
        Some(StoreEvent::ShareMissing { region, why })
    }

    /// Reports a second instance when it is noticed, and again whenever the number of its reports has doubled.
    fn second_instance(&mut self, status: &RegionStatus) -> Option<StoreEvent> {
        let reports = status.second_instance_reports;
        if reports < (2 * self.second_instance_reports).max(1) {
            return None;
        }
        self.second_instance_reports = reports;
        Some(StoreEvent::SecondInstance { region: status.region.clone() })
    }

    fn weights(&mut self, status: &RegionStatus) -> Option<StoreEvent> {
        let agreed = status.agreed.clone()?;
        if !status.is_division_pending() {
            self.pending.take()?;
            return Some(StoreEvent::WeightsAgreed { division: agreed });
        }
        let awaited = status.awaited_votes.clone()?;
        let now = (agreed.clone(), awaited.clone());
        if self.pending.as_ref() == Some(&now) {
            return None;
        }
        self.pending = Some(now);
        Some(StoreEvent::WeightsPending { configured: status.configured.clone(), agreed, awaited })
    }
}

/// Writes an event of regions as text.
pub(in crate::store) fn describe(event: &StoreEvent, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match event {
        StoreEvent::RegionSynced { region, share, division } => write!(
            f,
            "region {region} is synchronised with the other regions: its share of regional limits is {} ({division})",
            Percent(*share)
        ),
        StoreEvent::GlobalUnreached { servers, region, rate } => {
            write!(
                f,
                "the global server of the regions cannot be reached: {}; until it answers, ",
                servers.join(", ")
            )?;
            match rate {
                Some(rate) => {
                    write!(f, "region {region} enforces at most {} of the rate of regional limits", Percent(*rate))
                }
                None => write!(f, "region {region} has no share, and regional rules apply their on_failure mode"),
            }
        }
        StoreEvent::GlobalReached { servers } => {
            write!(f, "the global server of the regions answers: {}", servers.join(", "))
        }
        StoreEvent::ShareMissing { region, why } => {
            let why = match why {
                MissingShare::NothingAgreed => {
                    "this instance does not know any weights that the regions have agreed on"
                }
                MissingShare::NotMember => "the weights that the regions have agreed on do not include it",
                MissingShare::NotRead => "this instance could not read it from its store for an epoch",
            };
            write!(
                f,
                "region {region} has no share of regional limits: {why}; until it has one, regional rules apply their \
                 on_failure mode"
            )
        }
        StoreEvent::SecondInstance { region } => write!(
            f,
            "another instance of region {region} is running, and each admits the whole share of the region: with \
             `store: memory` a region must be one instance; stop the others, or set `store: {{ redis: .. }}`"
        ),
        StoreEvent::ShareRestored { region, share } => {
            write!(f, "region {region} has a share of regional limits again: {}", Percent(*share))
        }
        StoreEvent::WeightsPending { configured, agreed, awaited } => describe_pending(configured, agreed, awaited, f),
        StoreEvent::WeightsAgreed { division } => {
            write!(f, "the regions have agreed on the policy's weights: {division}; they take effect within two epochs")
        }
        _ => Ok(()),
    }
}

fn describe_pending(
    configured: &RegionDivision,
    agreed: &RegionDivision,
    awaited: &[String],
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    if configured.weights == agreed.weights {
        let (own, agreed) = (configured.epoch, agreed.epoch);
        write!(f, "the policy's sync of {own:?} is not in effect: the regions have agreed on epochs of {agreed:?}")?;
    } else {
        write!(f, "the policy's weights are not in effect: {configured}; the regions have agreed on {agreed}")?;
    }
    if awaited.is_empty() {
        // The last change has to take effect first.
        return write!(f, "; the next change follows within two epochs");
    }
    write!(f, "; waiting for the votes of {}", awaited.join(", "))
}

/// Thousandths as a percentage.
struct Percent(u32);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 % 10 {
            0 => write!(f, "{} %", self.0 / 10),
            tenths => write!(f, "{}.{tenths} %", self.0 / 10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn division(eu: u32, epoch_s: u64) -> RegionDivision {
        let weights = vec![("eu".to_owned(), eu), ("us".to_owned(), 50)];
        RegionDivision { weights, epoch: Duration::from_secs(epoch_s) }
    }

    /// A region that is synchronised.
    fn synced() -> RegionStatus {
        RegionStatus {
            region: "eu".to_owned(),
            share: Some(500),
            reserve: 25,
            synced_before: Some(Duration::ZERO),
            configured: division(50, 10),
            agreed: Some(division(50, 10)),
            ..RegionStatus::default()
        }
    }

    fn silent_for(seconds: u64) -> RegionStatus {
        RegionStatus { global_silent_for: Some(Duration::from_secs(seconds)), ..synced() }
    }

    fn without_share(why: MissingShare, opened_s: u64) -> RegionStatus {
        let opened_before = Duration::from_secs(opened_s);
        RegionStatus { share: None, missing_share: Some(why), opened_before, ..synced() }
    }

    fn pending(agreed: RegionDivision, awaited: &[&str]) -> RegionStatus {
        let awaited_votes = Some(awaited.iter().map(|&region| region.to_owned()).collect());
        RegionStatus { agreed: Some(agreed), awaited_votes, ..synced() }
    }

    /// Returns the texts of the events that follow from some states.
    fn texts(statuses: &[RegionStatus]) -> Vec<String> {
        let mut changes = RegionChanges::default();
        let servers = ["global:1".to_owned()];
        statuses.iter().flat_map(|status| changes.next(status, &servers)).map(|event| event.to_string()).collect()
    }

    const SYNCED: &str = "region eu is synchronised with the other regions: its share of regional limits is 50 % (eu=50 \
                          us=50 with sync 10s)";
    const UNREACHED: &str = "the global server of the regions cannot be reached: global:1; until it answers, ";

    #[test]
    fn first_synchronisation_is_reported_once() {
        assert_eq!(texts(&[RegionStatus::default(), synced(), synced()]), [SYNCED]);
    }

    #[test]
    fn silence_of_the_global_server_is_reported_once_and_its_end() {
        let reports = texts(&[synced(), silent_for(0), silent_for(1), silent_for(9), synced(), synced()]);
        let unreached = format!("{UNREACHED}region eu enforces at most 50 % of the rate of regional limits");
        assert_eq!(reports, [SYNCED, &unreached, "the global server of the regions answers: global:1"]);
        assert_eq!(texts(&[synced(), silent_for(0), synced()]), [SYNCED]);
    }

    #[test]
    fn unreached_global_server_at_the_start_leaves_the_reserve_or_no_share() {
        let before = RegionStatus { synced_before: None, agreed: None, ..silent_for(2) };
        let reserve = format!("{UNREACHED}region eu enforces at most 2.5 % of the rate of regional limits");
        assert_eq!(texts(&[before]), [reserve]);
        let missing = without_share(MissingShare::NothingAgreed, 60);
        let before = RegionStatus {
            synced_before: None,
            agreed: None,
            global_silent_for: Some(Duration::from_secs(2)),
            ..missing
        };
        let none = format!("{UNREACHED}region eu has no share, and regional rules apply their on_failure mode");
        assert_eq!(texts(&[before.clone(), before]), [none]);
    }

    #[test]
    fn missing_share_is_reported_with_its_reason_and_its_return() {
        let lost = without_share(MissingShare::NotRead, 1);
        let reports = texts(&[synced(), lost.clone(), lost, synced(), synced()]);
        let missing = "region eu has no share of regional limits: this instance could not read it from its store for an \
                       epoch; until it has one, regional rules apply their on_failure mode";
        assert_eq!(reports, [SYNCED, missing, "region eu has a share of regional limits again: 50 %"]);
        let not_member = without_share(MissingShare::NotMember, 0);
        assert!(texts(&[not_member])[0].contains("do not include it"));
    }

    #[test]
    fn second_instance_of_a_region_in_memory_is_reported_ever_more_rarely() {
        let after = |reports| RegionStatus { second_instance_reports: reports, ..synced() };
        let reports = texts(&[after(0), after(1), after(1), after(2), after(3), after(4), after(7)]);
        assert_eq!(reports.len(), 1 + 3);
        assert!(reports[1].starts_with("another instance of region eu is running"), "{}", reports[1]);
    }

    #[test]
    fn share_that_was_never_read_is_reported_after_some_seconds() {
        let unread = |opened_s| RegionStatus {
            synced_before: None,
            agreed: None,
            ..without_share(MissingShare::NotRead, opened_s)
        };
        assert_eq!(texts(&[unread(0), unread(4)]), [""; 0]);
        assert_eq!(texts(&[unread(0), unread(5), unread(6)]).len(), 1);
    }

    #[test]
    fn pending_weights_are_reported_when_they_change_and_when_they_are_agreed() {
        let waiting = pending(division(80, 10), &["us"]);
        let reports = texts(&[synced(), waiting.clone(), waiting, pending(division(80, 10), &[]), synced(), synced()]);
        let pending = "the policy's weights are not in effect: eu=50 us=50 with sync 10s; the regions have agreed on \
                       eu=80 us=50 with sync 10s; ";
        assert_eq!(
            reports[1..],
            [
                &format!("{pending}waiting for the votes of us"),
                &format!("{pending}the next change follows within two epochs"),
                "the regions have agreed on the policy's weights: eu=50 us=50 with sync 10s; they take effect within two \
                 epochs",
            ]
        );
    }

    #[test]
    fn other_length_of_an_epoch_is_reported() {
        assert_eq!(
            texts(&[pending(division(50, 20), &["ap", "us"])])[1..],
            ["the policy's sync of 10s is not in effect: the regions have agreed on epochs of 20s; waiting for the \
              votes of ap, us"]
        );
    }

    #[test]
    fn failures_of_regions_are_failures() {
        let region = "eu".to_owned();
        assert!(StoreEvent::ShareMissing { region: region.clone(), why: MissingShare::NotRead }.is_failure());
        assert!(StoreEvent::GlobalUnreached { servers: Vec::new(), region: region.clone(), rate: None }.is_failure());
        assert!(!StoreEvent::ShareRestored { region, share: 1 }.is_failure());
    }
}
