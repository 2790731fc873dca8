//! Each format: what its servers write is read in full, and the format is detected.

use tollgate_workbench::log::{LogFormat, LogOptions};

use crate::reading::{LogFiles, OwnedRecord, read, read_as};

/// 2026-11-16T09:30:00Z.
const TIME_NS: u64 = 1_794_821_400_000_000_000;

/// The record that most fixtures describe.
fn record() -> OwnedRecord {
    OwnedRecord {
        time_ns: TIME_NS,
        client_ip: "203.0.113.9".parse().ok(),
        user: None,
        method: "POST".to_owned(),
        host: None,
        target: "/auth/login?next=%2F".to_owned(),
        status: Some(200),
        fields: Vec::new(),
    }
}

fn fields(fields: &[(&str, &str)]) -> Vec<(String, String)> {
    fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Reads a log of one line, and checks that its format is detected.
fn only_record(format: LogFormat, content: &str) -> OwnedRecord {
    let (records, summary) = read([content]);
    assert_eq!((summary.logs[0].format, summary.unreadable), (format, 0), "{content}: {:?}", summary.examples);
    assert_eq!(read_as(format, content).0, records, "the forced format reads the same");
    let [record] = records.as_slice() else { panic!("{content}: {records:?}") };
    record.clone()
}

#[test]
fn common_and_combined_lines_are_read() {
    let common = r#"203.0.113.9 - - [16/Nov/2026:09:30:00 +0000] "POST /auth/login?next=%2F HTTP/1.1" 200 512"#;
    assert_eq!(only_record(LogFormat::Combined, common), record());
    let combined = format!(r#"{common} "https://example.com/" "curl/8.5 (\"quoted\")""#);
    let expected = fields(&[("referer", "https://example.com/"), ("user-agent", "curl/8.5 (\"quoted\")")]);
    assert_eq!(only_record(LogFormat::Combined, &combined), OwnedRecord { fields: expected, ..record() });
}

#[test]
fn fields_after_the_combined_ones_are_tolerated() {
    let start =
        r#"203.0.113.9 - alice [16/Nov/2026:10:30:00 +0100] "POST /auth/login?next=%2F HTTP/2.0" 200 512 "-" "curl""#;
    let curl = ("user-agent", "curl");
    for (end, expected) in [
        ("", vec![curl]),
        (" 0.123", vec![curl]),
        (" 0.123 0.100 .", vec![curl]),
        (r#" "-""#, vec![curl]),
        (r#" "198.51.100.7, 10.0.0.1""#, vec![curl, ("x-forwarded-for", "198.51.100.7, 10.0.0.1")]),
        (r#" 17 "web@docker" "http://10.0.0.2:80" 12ms"#, vec![curl]),
        (r#" "unfinished"#, vec![curl]),
    ] {
        let expected = OwnedRecord { user: Some("alice".to_owned()), fields: fields(&expected), ..record() };
        assert_eq!(only_record(LogFormat::Combined, &format!("{start}{end}\n")), expected, "{end}");
    }
}

#[test]
fn unusual_clients_users_and_requests_are_read() {
    let at = "[16/Nov/2026:09:30:00 +0000]";
    for (line, expected) in [
        (
            format!(r#"2001:db8::1 - - {at} "GET / HTTP/1.1" 304 -"#),
            OwnedRecord {
                client_ip: "2001:db8::1".parse().ok(),
                method: "GET".into(),
                target: "/".into(),
                status: Some(304),
                ..record()
            },
        ),
        (
            format!(r#"www.example.com:443 203.0.113.9 - - {at} "GET / HTTP/1.1" 200 1"#),
            OwnedRecord { host: Some("www.example.com".into()), method: "GET".into(), target: "/".into(), ..record() },
        ),
        (
            format!(r#"crawler.example.net - - {at} "GET / HTTP/1.1" 200 1"#),
            OwnedRecord { client_ip: None, method: "GET".into(), target: "/".into(), ..record() },
        ),
        (
            format!(r#"203.0.113.9 - a user [1] {at} "GET /a b HTTP/1.0" 200 1"#),
            OwnedRecord { user: Some("a user [1]".into()), method: "GET".into(), target: "/a b".into(), ..record() },
        ),
        (
            format!(r#"203.0.113.9 - - {at} "GET /caf\xC3\xA9\x22 HTTP/1.1" 200 1"#),
            OwnedRecord { method: "GET".into(), target: "/caf%C3%A9\"".into(), ..record() },
        ),
        (
            // As Traefik writes it.
            format!(
                r#"203.0.113.9 - - {at} "GET /a?b="c" HTTP/1.1" 200 2 "-" "-" 2 "r@file" "http://10.0.0.1:80" 0ms"#
            ),
            OwnedRecord { method: "GET".into(), target: "/a?b=\"c\"".into(), ..record() },
        ),
        (
            format!(r#"203.0.113.9 - - {at} "\x16\x03\x01" 400 150"#),
            OwnedRecord { method: String::new(), target: String::new(), status: Some(400), ..record() },
        ),
        (
            format!(r#"203.0.113.9 - - {at} "-" 408 0"#),
            OwnedRecord { method: String::new(), target: String::new(), status: Some(408), ..record() },
        ),
        (
            format!(r#"203.0.113.9 - - {at} "" 000 0"#),
            OwnedRecord { method: String::new(), target: String::new(), status: None, ..record() },
        ),
        (
            format!(r#"203.0.113.9 - - {at} "custom-method /a HTTP/1.1" 405 0"#),
            OwnedRecord { method: "custom-method".into(), target: "/a".into(), status: Some(405), ..record() },
        ),
    ] {
        assert_eq!(only_record(LogFormat::Combined, &line), expected, "{line}");
    }
}

#[test]
fn nginx_json_is_read() {
    let line = r#"{"time_iso8601":"2026-11-16T10:30:00+01:00","remote_addr":"203.0.113.9","remote_user":"alice","request":"POST /auth/login?next=%2F HTTP/1.1","status":200,"host":"api.example.com","http_x_api_key":"k\"1","http_user_agent":"curl/8","http_referer":"","request_time":0.003,"tenant":"Blue","upstream_addr":"10.0.0.1:80"}"#;
    let expected = OwnedRecord {
        user: Some("alice".to_owned()),
        host: Some("api.example.com".to_owned()),
        fields: fields(&[("x-api-key", "k\"1"), ("user-agent", "curl/8"), ("tenant", "Blue")]),
        ..record()
    };
    assert_eq!(only_record(LogFormat::NginxJson, line), expected);
}

#[test]
fn nginx_members_of_the_same_meaning_have_an_order() {
    let line = r#"{"time_local":"16/Nov/2026:09:30:00 +0000","msec":"1794821400.250","uri":"/rewritten","request_method":"POST","request":"GET /other HTTP/1.1","request_uri":"/auth/login?next=%2F","server_name":"_","http_host":"api.example.com:8443","remote_user":"-","remote_addr":"203.0.113.9","status":"200"}"#;
    let expected =
        OwnedRecord { time_ns: TIME_NS + 250_000_000, host: Some("api.example.com:8443".to_owned()), ..record() };
    assert_eq!(only_record(LogFormat::NginxJson, line), expected);
}

#[test]
fn envoy_json_is_read() {
    let line = r#"{"start_time":"2026-11-16T09:30:00.000Z","method":"POST","path":"/auth/login?next=%2F","protocol":"HTTP/1.1","response_code":200,"response_flags":"-","duration":12,"bytes_sent":5,"x_forwarded_for":"198.51.100.7","user_agent":"curl/8","request_id":"0a1b","authority":"api.example.com","upstream_host":"10.0.0.2:80","downstream_remote_address":"203.0.113.9:51234"}"#;
    let expected = OwnedRecord {
        host: Some("api.example.com".to_owned()),
        fields: fields(&[("x-forwarded-for", "198.51.100.7"), ("user-agent", "curl/8"), ("request-id", "0a1b")]),
        ..record()
    };
    assert_eq!(only_record(LogFormat::EnvoyJson, line), expected);
}

#[test]
fn caddy_json_is_read() {
    let line = r#"{"level":"info","ts":1794821400.25,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"10.0.0.1","remote_port":"41342","client_ip":"203.0.113.9","proto":"HTTP/2.0","method":"POST","host":"api.example.com","uri":"/auth/login?next=%2F","headers":{"User-Agent":["curl/8"],"X-Tag":["a","b\u00e9"]},"tls":{"resumed":false,"version":772}},"bytes_read":0,"user_id":"alice","duration":0.0009,"size":5,"status":200,"resp_headers":{"Server":["Caddy"]}}
{"level":"info","ts":1794821401,"msg":"server running","name":"srv0"}
"#;
    let expected = OwnedRecord {
        time_ns: TIME_NS + 250_000_000,
        user: Some("alice".to_owned()),
        host: Some("api.example.com".to_owned()),
        fields: fields(&[("user-agent", "curl/8"), ("x-tag", "a"), ("x-tag", "bé")]),
        ..record()
    };
    assert_eq!(only_record(LogFormat::CaddyJson, line), expected);
}

#[test]
fn traefik_json_is_read() {
    let line = r#"{"ClientAddr":"10.0.0.1:41234","ClientHost":"203.0.113.9","ClientPort":"41234","ClientUsername":"-","DownstreamContentSize":5,"DownstreamStatus":200,"Duration":1200,"OriginStatus":503,"RequestAddr":"api.example.com:443","RequestHost":"api.example.com","RequestMethod":"POST","RequestPath":"/auth/login?next=%2F","RequestProtocol":"HTTP/1.1","ServiceName":"web@docker","StartLocal":"2026-11-16T10:30:00+01:00","StartUTC":"2026-11-16T09:30:00.000000001Z","level":"info","msg":"","request_X-Api-Key":"k1","time":"2026-11-16T09:30:01Z"}"#;
    let expected = OwnedRecord {
        time_ns: TIME_NS + 1,
        host: Some("api.example.com".to_owned()),
        fields: fields(&[("x-api-key", "k1")]),
        ..record()
    };
    assert_eq!(only_record(LogFormat::TraefikJson, line), expected);
}

#[test]
fn alb_lines_are_read() {
    let line = r#"https 2026-11-16T09:30:01.123456Z app/web/50dc6c495c0c9188 203.0.113.9:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "POST https://www.example.com:443/auth/login?next=%2F HTTP/1.1" "curl/7.46.0" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/t/73e2d6bc24d8a067 "Root=1-58337281-1d84f3d73c47ec4e58577259" "api.example.com" "arn:aws:acm:us-east-2:123456789012:certificate/12345678" 1 2026-11-16T09:30:00.000000Z "authenticate,forward" "-" "-" "10.0.0.1:80" "200" "-" "-""#;
    let expected = OwnedRecord {
        host: Some("api.example.com".to_owned()),
        fields: fields(&[("user-agent", "curl/7.46.0")]),
        ..record()
    };
    assert_eq!(only_record(LogFormat::Alb, line), expected);
    let without_domain = r#"http 2026-11-16T09:30:00Z app/web/50dc 203.0.113.9:2817 - -1 -1 -1 503 - 0 337 "POST http://www.example.com:80/auth/login?next=%2F HTTP/1.1" "-" - - -"#;
    let expected = OwnedRecord { host: Some("www.example.com".to_owned()), status: Some(503), ..record() };
    assert_eq!(only_record(LogFormat::Alb, without_domain), expected);
    let malformed = r#"http 2026-11-16T09:30:00Z app/web/50dc 203.0.113.9:2817 - -1 -1 -1 400 - 0 337 "- http://www.example.com:80- -" "-" - - -"#;
    assert_eq!(only_record(LogFormat::Alb, malformed).status, Some(400));
}

/// A letter after a closing quote, even one of several bytes, does not begin the next word.
#[test]
fn alb_word_that_follows_a_quote_without_a_space_is_unreadable() {
    let line = |user_agent: &str| {
        let request = "GET http://www.example.com:80/ HTTP/1.1";
        format!(
            "http 2026-11-16T09:30:00Z app/web/50dc 203.0.113.9:2817 - -1 -1 -1 200 - 0 337 \"{request}\"{user_agent}"
        )
    };
    let (records, summary) = read_as(LogFormat::Alb, &(line(" \"curl\"\n") + &line("\u{2ab}curl\n")));
    assert_eq!((records.len(), summary.unreadable), (1, 1));
    assert_eq!(records[0].fields, fields(&[("user-agent", "curl")]));
}

#[test]
fn csv_is_read_with_other_columns_as_fields() {
    let expected = OwnedRecord {
        user: Some("a \"b\", c".to_owned()),
        host: Some("api.example.com".to_owned()),
        fields: fields(&[("plan", "pro")]),
        ..record()
    };
    for csv in [
        "time,ip,user,method,path,host,status,Plan\r\n1794821400,203.0.113.9,\"a \"\"b\"\", c\",POST,/auth/login?next=%2F,api.example.com,200,pro\r\n",
        "Status;Plan;Timestamp;client_ip;method;uri;authority;user\n200;pro;2026-11-16T09:30:00Z;203.0.113.9;POST;/auth/login?next=%2F;api.example.com;\"a \"\"b\"\", c\"\n",
        "\u{feff}ts\tclient_ip\tuser\tmethod\tpath\thost\tstatus\tplan\n1794821400000\t203.0.113.9\t\"a \"\"b\"\", c\"\tPOST\t/auth/login?next=%2F\tapi.example.com\t200\tpro",
    ] {
        assert_eq!(only_record(LogFormat::Csv, csv), expected, "{csv}");
    }
}

#[test]
fn csv_files_that_were_joined_are_read() {
    let (records, summary) = read(["time,ip\n1,192.0.2.1\ntime,ip\n2,192.0.2.2\n3\n4,,5\n"]);
    assert_eq!(records.len(), 3);
    assert_eq!((summary.lines, summary.unreadable), (4, 1));
    assert_eq!(summary.examples[0].reason, "the line has more values than the first line has names");
}

#[test]
fn events_of_the_service_are_read() {
    let json = r#"{"event":"notice","time":"2026-11-16T09:00:00.000Z","level":"info","message":"HTTP on 127.0.0.1:8080"}
{"event":"violation","time":"2026-11-16T09:30:00.000Z","rule":"login","action":"reject","shadow":false,"limit":5,"algorithm":"sliding-window-log","front_end":"http","method":"POST","route":"/auth/*","retry_after_ms":11800,"client":"5b0c1e:79518ce5addcf448"}
{"event":"left_out","time":"2026-11-16T09:30:10.000Z","violations":3,"by_rule":[["login",3]],"lines_dropped":0}
"#;
    let text = "tollgate: HTTP on 127.0.0.1:8080
tollgate: violation time=2026-11-16T09:30:00.000Z rule=login action=reject limit=5 algorithm=sliding-window-log front_end=http method=POST route=/auth/* retry_after_ms=11800 client=\"5b0c1e:79518ce5addcf448\"
tollgate: left_out time=2026-11-16T09:30:10.000Z violations=3 login=3 lines_dropped=0
";
    let expected =
        [("action", "reject"), ("client", "5b0c1e:79518ce5addcf448"), ("front_end", "http"), ("rule", "login")];
    for log in [json, text] {
        let mut record = only_record(LogFormat::Events, log);
        record.fields.sort();
        let expected = OwnedRecord {
            client_ip: None,
            target: "/auth/*".to_owned(),
            status: None,
            fields: fields(&expected),
            ..self::record()
        };
        assert_eq!(record, expected, "{log}");
    }
}

#[test]
fn only_chosen_fields_are_delivered() {
    let contents = [
        "203.0.113.9 - - [16/Nov/2026:09:30:00 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"curl\"\n",
        "{\"msec\":1794821401,\"remote_addr\":\"203.0.113.9\",\"http_user_agent\":\"curl\",\"http_x_api_key\":\"k1\"}\n",
        "time,ip,x-api-key,plan\n1794821402,203.0.113.9,k2,pro\n",
    ];
    let options = LogOptions { fields: Some(vec!["x-api-key".to_owned()]), ..LogOptions::default() };
    let (records, _) = LogFiles::new(contents).read(&options).unwrap();
    let delivered: Vec<_> = records.iter().map(|record| record.fields.clone()).collect();
    assert_eq!(delivered, [fields(&[]), fields(&[("x-api-key", "k1")]), fields(&[("x-api-key", "k2")])]);
}
