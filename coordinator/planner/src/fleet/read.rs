//! What is asked of a fleet, by record.

use super::{Exceptions, Fleet, ServiceFleet, Stored};
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::record::maintenance::Maintenance;
use tidegate_proto::record::schema::Schema;
use tidegate_proto::record::token::{CommonName, Credential, Token};
use tidegate_proto::record::upgrade::Upgrade;
use tidegate_proto::record::waves::WavePage;
use tidegate_proto::record::{Malformed, Timestamp};
use tidegate_proto::{InstanceId, Key, NodeId, Revision, SchemaName, ServiceName, TokenId, UpgradeId};

impl Fleet {
    /// A service that has left any trace.
    pub fn service(&self, name: &ServiceName) -> Option<&ServiceFleet> {
        self.services.get(name)
    }

    /// Every service, by name.
    pub fn services(&self) -> impl Iterator<Item = &ServiceFleet> {
        self.services.values()
    }

    /// An upgrade, over or not.
    pub fn upgrade(&self, id: &UpgradeId) -> Option<&Stored<Upgrade>> {
        self.upgrades.get(id)
    }

    /// Every upgrade, by id.
    pub fn upgrades(&self) -> impl Iterator<Item = (&UpgradeId, &Stored<Upgrade>)> {
        self.upgrades.iter()
    }

    /// The upgrade that holds the lock of a service.
    pub fn active_upgrade(&self, service: &ServiceName) -> Option<(&UpgradeId, &Stored<Upgrade>)> {
        let id = &self.active.get(service)?.upgrade;
        self.upgrades.get_key_value(id).filter(|(_, upgrade)| !upgrade.phase.is_over())
    }

    /// Every upgrade that holds a lock, with its service's.
    pub fn active_upgrades(&self) -> impl Iterator<Item = (&UpgradeId, &Stored<Upgrade>)> {
        self.active.keys().filter_map(|service| self.active_upgrade(service))
    }

    /// The lock of a service: which upgrade, and the lock's mod_revision.
    pub fn lock(&self, service: &ServiceName) -> Option<(&UpgradeId, Revision)> {
        self.active.get(service).map(|active| (&active.upgrade, active.at))
    }

    /// The lock of a schema.
    pub fn schema_lock(&self, schema: &SchemaName) -> Option<(&UpgradeId, Revision)> {
        self.active_schemas.get(schema).map(|(id, at)| (id, *at))
    }

    /// What is known of a schema.
    pub fn schema(&self, id: &SchemaName) -> Option<&Stored<Schema>> {
        self.schemas.get(id)
    }

    /// Every schema, by id.
    pub fn schemas(&self) -> impl Iterator<Item = (&SchemaName, &Stored<Schema>)> {
        self.schemas.iter()
    }

    /// A node that a person keeps out.
    pub fn maintenance(&self, node: &NodeId) -> Option<&Stored<Maintenance>> {
        self.maintenance.get(node)
    }

    /// A token, good or not.
    pub fn token(&self, id: &TokenId) -> Option<&Stored<Token>> {
        self.tokens.get(id)
    }

    /// Every token, by id, also those that were revoked or have expired.
    pub fn tokens(&self) -> impl Iterator<Item = (&TokenId, &Stored<Token>)> {
        self.tokens.iter()
    }

    /// The token of the holder of a client certificate with this subject.
    pub fn token_of_certificate(
        &self,
        subject: &CommonName,
        now: Timestamp,
    ) -> Option<(&TokenId, &Stored<Token>)> {
        let known =
            |token: &Token| matches!(&token.credential, Credential::Certificate(name) if name == subject);
        self.tokens().find(|(_, token)| known(token) && token.revoked.is_none() && !token.has_expired(now))
    }

    /// The instances of an upgrade that failed or were skipped.
    pub fn exceptions<'a>(&'a self, id: &UpgradeId, upgrade: &'a Upgrade) -> Exceptions<'a> {
        Exceptions::of(id, upgrade, &self.exceptions)
    }

    /// The stored pages of who is in which wave.
    pub fn wave_pages(&self, id: &UpgradeId) -> impl Iterator<Item = (u32, &Stored<WavePage>)> {
        self.waves.get(id).into_iter().flatten().map(|(page, stored)| (*page, stored))
    }

    /// A record that could not be read: why not.
    pub fn unreadable_at(&self, key: &Key) -> Option<&Malformed> {
        self.unreadable.get(key).map(|(why, _)| why)
    }

    /// What a commit compares that replaces the record of a key, whether that could be read, at `known`, or not.
    pub fn replaced_at(&self, key: &Key, known: Option<Revision>) -> Revision {
        known.or_else(|| self.unreadable_revision(key)).unwrap_or(Revision::ABSENT)
    }

    fn unreadable_revision(&self, key: &Key) -> Option<Revision> {
        self.unreadable.get(key).map(|(_, at)| *at)
    }

    /// Every record that could not be read, with why, and its mod_revision.
    pub fn unreadable(&self) -> impl Iterator<Item = (&Key, &Malformed, Revision)> {
        self.unreadable.iter().map(|(key, (why, at))| (key, why, *at))
    }

    /// The first record that a commit compares as another one, because it cannot be read: as absent, as a rule. The store would
    /// refuse that commit as long as the record stays as it is.
    pub fn unreadable_in<'a>(&self, commit: &'a Commit) -> Option<&'a Key> {
        let differs =
            |key: &Key, at: Revision| self.unreadable_revision(key).is_some_and(|is_at| is_at != at);
        commit.when.iter().find_map(|compared| match compared {
            Precondition::At(key, at) if differs(key, *at) => Some(key),
            _ => None,
        })
    }

    /// The records of an instance that could not be read, with why.
    pub fn unreadable_of(&self, id: &InstanceId) -> impl Iterator<Item = (&Key, &Malformed)> {
        let is_of = move |key: &Key| match key {
            Key::Report(s, n) | Key::Inventory(s, n) | Key::Directive(s, n) | Key::Decommission(s, n) => {
                *s == id.service && *n == id.node
            }
            _ => false,
        };
        self.unreadable.iter().filter(move |(key, _)| is_of(key)).map(|(key, (why, _))| (key, why))
    }
}
