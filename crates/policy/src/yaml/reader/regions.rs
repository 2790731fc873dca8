//! Reads `regions`.

use super::PolicyReader;
use super::members::KnownMembers;
use super::settings::{
    DATABASE, MODE, MODES, NODES, PASSWORD_ENV, PASSWORD_FILE, PREFIX, REFUSED, SENTINEL_PRIMARY, TLS, TLS_CA, USERNAME,
};
use super::values::set;
use crate::model::{GlobalServer, MAX_WEIGHT, Regions};
use crate::yaml::schema::{MapSchema, ValueSchema, defaulted, field, required, shape};
use crate::yaml::tree::YamlNode;

pub(super) static REGIONS: MapSchema = MapSchema {
    mistaken: &[
        ("own", "write `self`, the region of the instances that use this file"),
        ("region", "write `self`, the region of the instances that use this file"),
        ("epoch", "write `sync`, as in `sync: 10s`"),
        ("interval", "write `sync`, as in `sync: 10s`"),
        ("nodes", "write it under `global`, as in `global: { nodes: [redis.internal:6379] }`"),
        ("redis", "write the members of the connection under `global`"),
    ],
    ..shape(
        "regions",
        "The regions that divide the limits of regional rules.",
        &[
            field(
                "self",
                ValueSchema::Text,
                "The region of the instances that use this file; `serve --region` sets or overrides it.",
            ),
            required("weights", ValueSchema::Map(&WEIGHT), "The weight of each region, by name."),
            defaulted("sync", ValueSchema::Duration, "The length of an epoch, for which rates are lent.", r#""10s""#),
            required("global", ValueSchema::Object(&GLOBAL), "The Redis server that all regions report to."),
        ],
    )
};

static WEIGHT: ValueSchema = ValueSchema::Number { min: 1, max: MAX_WEIGHT as u64 };

pub(super) static GLOBAL: MapSchema = MapSchema {
    refused: REFUSED,
    mistaken: &[
        ("deadline", "remove it: no request waits for the global server"),
        ("on_failure", "remove it: without the global server, a region enforces at most its share"),
        ("db", "write `database`, as in `database: 0`"),
        ("user", "write `username`"),
        ("key_prefix", "write `prefix`"),
    ],
    ..shape(
        "global",
        "The connection to the Redis server that all regions report to.",
        &[NODES, MODE, PREFIX, DATABASE, USERNAME, PASSWORD_ENV, PASSWORD_FILE, TLS, TLS_CA, SENTINEL_PRIMARY],
    )
};

impl PolicyReader<'_> {
    /// Reads the regions; `None` if there are none, or if they cannot be read.
    pub(super) fn regions(&mut self, node: Option<&YamlNode>) -> Option<Regions> {
        let regions = self.declared_regions(node?);
        self.broken.regions = regions.is_none();
        regions
    }

    fn declared_regions(&mut self, node: &YamlNode) -> Option<Regions> {
        let members = self.members(node, &REGIONS)?;
        let own = members.get("self").map(|node| self.text(node, "the name of a region"));
        let sync_ns = members.get("sync").map(|node| self.duration(node));
        let weights = members.get("weights").and_then(|node| self.weights(node));
        let global = members.get("global").and_then(|node| self.global(node));
        let mut regions = Regions::new(weights?, global?);
        // An unreadable value was reported, and the default takes its place.
        regions.own = own.flatten();
        set(&mut regions.sync_ns, sync_ns.flatten());
        Some(regions)
    }

    /// Reads the weights; `None` if one of them cannot be read, because the shares depend on all of them.
    fn weights(&mut self, node: &YamlNode) -> Option<Vec<(String, u32)>> {
        let expected = "a map of regions and weights, such as { eu: 60, us: 40 }";
        let weights = self.each_member(node, expected, |reader, name, weight| {
            let weight = reader.number(weight, 1..=u64::from(MAX_WEIGHT))?;
            Some((name.to_owned(), u32::try_from(weight).ok()?))
        });
        (!weights.is_empty() && weights.len() == node.members().len() && !node.lacks_members()).then_some(weights)
    }

    fn global(&mut self, node: &YamlNode) -> Option<GlobalServer> {
        let members = self.members(node, &GLOBAL)?;
        let nodes = self.texts(members.get("nodes")?, "a node such as redis.internal:6379");
        if nodes.is_empty() {
            // The empty list was reported.
            return None;
        }
        let mut global = GlobalServer::at(nodes);
        set(&mut global.mode, members.get("mode").and_then(|node| self.word(node, &MODES)));
        set(&mut global.prefix, self.optional_text(&members, "prefix"));
        set(&mut global.database, self.database(&members));
        global.username = self.optional_text(&members, "username");
        global.password = self.password(&members);
        set(&mut global.tls, members.get("tls").and_then(|node| self.bool(node)));
        global.tls_ca = self.authorities(&members);
        global.sentinel_primary = self.optional_text(&members, "sentinel_primary");
        Some(global)
    }

    /// Reads the number of the database of a connection.
    pub(super) fn database(&mut self, members: &KnownMembers<'_>) -> Option<u32> {
        let number = members.get("database").and_then(|node| self.number(node, 0..=65_535))?;
        u32::try_from(number).ok()
    }
}
