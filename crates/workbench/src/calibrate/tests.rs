use tollgate::policy::parse;
use tollgate::{Limiter, ManualClock, Request};

use super::*;
use crate::simulate::Simulation;
use crate::traffic::{GeneratedRequest, Population};

const SECOND_NS: u64 = 1_000_000_000;
const START_NS: u64 = 1_767_225_600 * SECOND_NS;

const POPULATION: Population = Population {
    seed: 3,
    poisson_clients: 600,
    on_off_clients: 600,
    scrapers: 2,
    stuffers: 2,
    start_ns: START_NS,
    duration_s: 900,
};

fn calibrate(requests: &[GeneratedRequest], options: CalibrationOptions) -> Calibration {
    let mut calibrator = Calibrator::new(options);
    let records: Vec<LogRecord<'_>> = requests.iter().map(GeneratedRequest::record).collect();
    records.chunks(1_000).for_each(|batch| calibrator.requests(batch));
    calibrator.finish().unwrap()
}

fn proposal(calibration: &Calibration, class: EndpointClass) -> &LimitProposal {
    calibration.proposals.iter().find(|proposal| proposal.class == class).unwrap()
}

#[test]
fn limits_pass_good_clients_and_cut_bad_ones() {
    let requests = POPULATION.requests();
    let calibration = calibrate(&requests, CalibrationOptions::default());
    assert_eq!(calibration.outliers.len(), 4, "{:?}", calibration.outliers);
    let policy = parse(&policy_text(&calibration), "policy.yaml", None).unwrap();
    assert_eq!(policy.warnings, [], "validate --strict accepts the policy");
    let mut simulation = Simulation::new(&policy.policy).unwrap();
    let clock = ManualClock::at(0);
    let library = Limiter::with_clock(&policy.policy, clock.clone()).unwrap();
    let mut sent = [[0_u64; 2]; 2];
    let mut refused_clients = std::collections::BTreeSet::new();
    for request in &requests {
        let passed = simulation.request(&request.record());
        clock.set(request.time_ns);
        let asked =
            Request { method: request.method, target: &request.path, ..Request::from_peer(Some(request.client_ip)) };
        assert_eq!(library.check(&asked).is_allowed(), passed, "the library decides otherwise: {request:?}");
        let is_ordinary = request.behaviour.is_ordinary();
        sent[usize::from(is_ordinary)][usize::from(passed)] += 1;
        if is_ordinary && !passed {
            refused_clients.insert(request.client_ip);
        }
    }
    assert!(refused_clients.len() <= 1, "99.9 % of 1,200 clients: {refused_clients:?}");
    let [[bad_refused, bad_passed], _] = sent;
    assert!(bad_refused >= 9 * bad_passed, "{bad_refused} of {} refused", bad_refused + bad_passed);

    // The simulation confirms every figure of the proposals.
    let report = simulation.finish();
    for (proposal, rule) in calibration.proposals.iter().zip(&report.rules) {
        assert_eq!(rule.refused, proposal.touched.all_requests(), "{}", rule.rule);
        assert_eq!(rule.clients_refused, proposal.touched.all_clients(), "{}", rule.rule);
        assert_eq!(rule.allowed + rule.refused, proposal.evidence.requests + proposal.evidence.outlier_requests);
    }
}

#[test]
fn limits_hold_for_other_populations_and_for_times_in_whole_seconds() {
    for (seed, poisson_clients, on_off_clients, scrapers, stuffers) in
        [(1, 400, 0, 1, 0), (2, 0, 400, 3, 1), (3, 100, 300, 0, 4), (4, 300, 100, 8, 8), (5, 30, 30, 1, 1)]
    {
        let counts = Population { poisson_clients, on_off_clients, scrapers, stuffers, ..POPULATION };
        let mut requests = Population { seed, duration_s: 600, ..counts }.requests();
        requests.iter_mut().for_each(|request| request.time_ns -= request.time_ns % SECOND_NS);
        let calibration = calibrate(&requests, CalibrationOptions::default());
        let policy = parse(&policy_text(&calibration), "policy.yaml", None).unwrap().policy;
        let mut simulation = Simulation::new(&policy).unwrap();
        let (mut good_refused, mut bad, mut bad_refused) = (0, 0, 0);
        for request in &requests {
            let refused = u64::from(!simulation.request(&request.record()));
            if request.behaviour.is_ordinary() {
                good_refused += refused;
            } else {
                (bad, bad_refused) = (bad + 1, bad_refused + refused);
            }
        }
        let evidence: Vec<u64> = calibration.proposals.iter().map(|proposal| proposal.evidence.outliers).collect();
        assert_eq!(good_refused, 0, "seed {seed}: fewer than 1,000 clients, so all of them pass");
        assert!(bad_refused * 10 >= bad * 9, "seed {seed}: {bad_refused} of {bad} refused, outliers {evidence:?}");
    }
}

#[test]
fn each_bad_client_is_cut_by_nine_tenths_and_named() {
    let calibration = calibrate(&POPULATION.requests(), CalibrationOptions::default());
    for outlier in &calibration.outliers {
        assert!(outlier.refused * 10 >= outlier.requests * 9, "{outlier:?}");
    }
    let kinds: Vec<OutlierKind> = calibration.outliers.iter().map(|outlier| outlier.kind).collect();
    use OutlierKind::{CredentialStuffer, Scraper};
    assert_eq!(kinds, [Scraper, Scraper, CredentialStuffer, CredentialStuffer]);
}

#[test]
fn stated_share_decides_how_many_clients_are_touched() {
    let requests = POPULATION.requests();
    let at = |share_ppm, margin_percent| {
        let options = CalibrationOptions { share_ppm, margin_percent, ..CalibrationOptions::default() };
        let calibration = calibrate(&requests, options);
        let reads = proposal(&calibration, EndpointClass::Reads);
        (reads.rate.count(), reads.touched.clients, reads.evidence.clients)
    };
    let (all_count, all_touched, _) = at(1_000_000, 0);
    let (most_count, most_touched, clients) = at(950_000, 0);
    assert_eq!(all_touched, 0);
    assert!(most_touched > 0 && most_touched * 20 <= clients, "{most_touched} of {clients}");
    assert!(most_count <= all_count);
    assert!(at(950_000, 100).1 < most_touched, "a margin lets more clients through");
}

#[test]
fn classes_are_split_by_the_log() {
    let calibration = calibrate(&POPULATION.requests(), CalibrationOptions::default());
    let classes: Vec<EndpointClass> = calibration.proposals.iter().map(|proposal| proposal.class).collect();
    assert_eq!(classes, EndpointClass::ALL);
    let auth: Vec<String> = calibration.auth_endpoints.iter().map(ToString::to_string).collect();
    assert_eq!(auth, ["POST /auth/login"]);
    let reads = &proposal(&calibration, EndpointClass::Reads).evidence;
    assert_eq!((reads.clients, reads.outliers), (1_200, 2));
    assert!(reads.per_minute.p50 <= reads.per_minute.p99 && reads.burst.max >= reads.needed_burst);
}

#[test]
fn several_keys_get_their_own_limits_and_declarations() {
    let keys = vec![CalibrationKey::ClientIp, CalibrationKey::User, CalibrationKey::Field("api_key".to_owned())];
    let mut calibrator = Calibrator::new(CalibrationOptions { keys, ..CalibrationOptions::default() });
    for second in 0..1_000 {
        let record = LogRecord {
            time_ns: START_NS + second * SECOND_NS,
            client_ip: Some([10, 0, 0, (second % 7) as u8].into()),
            user: Some(if second % 2 == 0 { "ann" } else { "ben" }),
            method: "GET",
            target: "/",
            ..LogRecord::default()
        };
        calibrator.requests(&[record]);
    }
    let calibration = calibrator.finish().unwrap();
    assert_eq!(calibration.clients, [("client_ip".to_owned(), 7), ("user".to_owned(), 2), ("api_key".to_owned(), 0)]);
    assert_eq!(calibration.proposals.len(), 2, "no request has an api_key");
    let text = policy_text(&calibration);
    let policy = parse(&text, "policy.yaml", None).unwrap_or_else(|report| panic!("{report}\n{text}"));
    assert_eq!(policy.warnings, [], "{text}");
    let rules: Vec<&str> = policy.policy.rules.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(rules, ["reads-per-client-ip", "reads-per-user"]);
}

#[test]
fn log_without_requests_gives_a_valid_policy_without_rules() {
    let calibration = calibrate(&[], CalibrationOptions::default());
    assert_eq!((calibration.requests, calibration.first_ns, calibration.proposals.len()), (0, 0, 0));
    assert!(parse(&policy_text(&calibration), "policy.yaml", None).is_ok());
}
