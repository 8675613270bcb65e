//! Live sets: addresses that rules test by a name, and that change without new rules.

use std::net::IpAddr;

use firstmatch_core::UpdateError;
use firstmatch_core::live::Transaction;
use firstmatch_core::rule::{LiveSet, Member, SetId};
use firstmatch_core::schema::Family;
use firstmatch_formats::{self as formats, Options};

use crate::{Error, Firewall, Update};

/// Live set of a firewall, to ask for its members. Clones are cheap.
///
/// Answers are those of the last commit. Each waits for an update in progress.
///
/// ```
/// use firstmatch::Firewall;
///
/// let firewall = Firewall::from_text("live set bad = { 192.0.2.0/24 }\ndeny src $bad\n")?;
/// let bad = firewall.set("bad").expect("a live set");
/// assert_eq!((bad.len(), bad.contains([192, 0, 2, 7].into())), (1, true));
/// assert_eq!(bad.members()[0].to_string(), "192.0.2.0/24");
/// # Ok::<(), firstmatch::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Set {
    firewall: Firewall,
    id: SetId,
}

/// Numbers of members that came and went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replaced {
    /// Number of members that came.
    pub inserted: usize,
    /// Number of members that went.
    pub removed: usize,
}

/// A member of a live set: text such as `192.0.2.0/24`, an address, or a [`Member`].
pub trait IntoMember {
    /// Returns the member.
    ///
    /// # Errors
    /// If a text is no address, prefix or range of addresses.
    fn into_member(self) -> Result<Member, Error>;
}

impl IntoMember for &str {
    fn into_member(self) -> Result<Member, Error> {
        Ok(self.parse()?)
    }
}

impl IntoMember for &String {
    fn into_member(self) -> Result<Member, Error> {
        self.as_str().into_member()
    }
}

impl IntoMember for IpAddr {
    fn into_member(self) -> Result<Member, Error> {
        Ok(self.into())
    }
}

impl IntoMember for Member {
    fn into_member(self) -> Result<Member, Error> {
        Ok(self)
    }
}

/// Returns family and number of an address.
fn number_of(address: IpAddr) -> (Family, u128) {
    let member = Member::from(address);
    (member.family(), member.ends()[0])
}

impl Set {
    /// Returns the id, which updates take.
    pub fn id(&self) -> SetId {
        self.id
    }

    fn ask<R>(&self, ask: impl FnOnce(&LiveSet) -> R) -> Option<R> {
        self.firewall.inner.lock().rules().live_sets().get(self.id).map(ask)
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.ask(LiveSet::len).unwrap_or(0)
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a member holds an address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (family, number) = number_of(address);
        self.ask(|set| set.contains(family, number)).unwrap_or(false)
    }

    /// Returns a member that holds an address: the address itself, or else the shortest range of those that begin
    /// last.
    pub fn member_with(&self, address: IpAddr) -> Option<Member> {
        let (family, number) = number_of(address);
        self.ask(|set| set.member_with(family, number))?
    }

    /// Returns all members: those of IPv4, then those of IPv6, each in order of their first address.
    pub fn members(&self) -> Vec<Member> {
        self.ask(|set| set.members().collect()).unwrap_or_default()
    }
}

impl Firewall {
    /// Returns the live set of a name; `None` if there is none.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("live set bad = { }\ndeny src $bad\n")?;
    /// assert!(firewall.set("bad").is_some_and(|bad| bad.is_empty()));
    /// assert!(firewall.set("good").is_none());
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn set(&self, name: &str) -> Option<Set> {
        let id = self.inner.lock().rules().live_sets().find(name)?;
        Some(Set { firewall: self.clone(), id })
    }
}

impl Update<'_> {
    /// Returns the id of the live set of a name.
    ///
    /// Ids stay as long as the firewall does, also when rules are [reloaded](Firewall::reload).
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("live set bad = { 192.0.2.7 }\ndeny src $bad\npermit\n")?;
    /// let mut update = firewall.update();
    /// let bad = update.set("bad")?;
    /// update.insert_member(bad, "198.51.100.0/24")?;
    /// update.remove_member(bad, "192.0.2.7")?;
    /// update.prepend("permit src 198.51.100.9")?;
    /// update.commit()?;
    /// assert_eq!(firewall.set("bad").map(|bad| bad.len()), Some(1));
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there is no live set of this name; the error lists their names.
    pub fn set(&self, name: &str) -> Result<SetId, Error> {
        let sets = self.writer.rules().live_sets();
        sets.find(name).ok_or_else(|| {
            let names: Vec<&str> = sets.iter().map(|(_, set)| set.name()).collect();
            let names = if names.is_empty() { "there are none".to_owned() } else { names.join(", ") };
            Error::rule(format!("there is no live set `{name}`; expected one of: {names}"))
        })
    }

    /// Adds an empty live set, which rules can test from now on.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("permit\n")?;
    /// let mut update = firewall.update();
    /// let bad = update.add_set("bad")?;
    /// update.insert_member(bad, "2001:db8::/32")?;
    /// update.prepend("deny src $bad")?;
    /// update.commit()?;
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    ///
    /// # Errors
    /// If a set has the name already.
    pub fn add_set(&mut self, name: &str) -> Result<SetId, Error> {
        self.change_sets(|transaction| transaction.add_set(name))
    }

    /// Adds a member to a live set; returns whether it is new.
    ///
    /// A member is an address, a prefix or a range of addresses. Members may overlap, and a prefix is the same member
    /// as the range of its addresses. No rule changes, so that ids and counts stay, and nothing is rebuilt.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("live set bad = { 192.0.2.0/24 }\ndeny src $bad\npermit\n")?;
    /// let mut update = firewall.update();
    /// let bad = update.set("bad")?;
    /// assert!(update.insert_member(bad, "198.51.100.1-198.51.100.9")?);
    /// assert!(!update.insert_member(bad, "192.0.2.0-192.0.2.255")?); // it is one already
    /// assert!(update.insert_member(bad, "192.0.2.7/24").is_err());
    /// update.commit()?;
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the id is unknown, a text is no member, or there would be too many members; the update is then as it was.
    pub fn insert_member(&mut self, set: SetId, member: impl IntoMember) -> Result<bool, Error> {
        let member = member.into_member()?;
        self.change_sets(|transaction| transaction.insert_member(set, member))
    }

    /// Removes a member of a live set; returns whether it was one.
    ///
    /// It must be a whole member as it was added. Addresses that other members hold stay in the set.
    ///
    /// ```
    /// let text = "live set bad = { 192.0.2.0/24, 192.0.2.7 }\ndeny src $bad\npermit\n";
    /// let firewall = firstmatch::Firewall::from_text(text)?;
    /// let mut update = firewall.update();
    /// let bad = update.set("bad")?;
    /// assert!(update.remove_member(bad, "192.0.2.0/24")?);
    /// assert!(!update.remove_member(bad, "192.0.2.8")?); // it never was one
    /// update.commit()?;
    /// assert!(firewall.set("bad").is_some_and(|bad| bad.contains([192, 0, 2, 7].into())));
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the id is unknown, or a text is no member; the update is then as it was.
    pub fn remove_member(&mut self, set: SetId, member: impl IntoMember) -> Result<bool, Error> {
        let member = member.into_member()?;
        self.change_sets(|transaction| transaction.remove_member(set, member))
    }

    /// Replaces the members of a live set; only those that differ are changed.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("live set bad = { 192.0.2.1, 192.0.2.2 }\ndeny src $bad\n")?;
    /// let mut update = firewall.update();
    /// let bad = update.set("bad")?;
    /// let replaced = update.replace_members(bad, ["192.0.2.2", "192.0.2.3"])?;
    /// assert_eq!((replaced.inserted, replaced.removed), (1, 1));
    /// update.commit()?;
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Update::insert_member`].
    pub fn replace_members<M: IntoMember>(
        &mut self,
        set: SetId,
        members: impl IntoIterator<Item = M>,
    ) -> Result<Replaced, Error> {
        let members = members.into_iter().map(IntoMember::into_member).collect::<Result<Vec<_>, _>>()?;
        let [inserted, removed] = self.change_sets(|transaction| transaction.replace_members(set, members))?;
        Ok(Replaced { inserted, removed })
    }

    /// Takes the members of a live set from the text of a list file, which has been read again.
    ///
    /// The text has a value a line, with comments behind `#`, like a file that a set of a rule file includes. Only
    /// members that differ are changed.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("live set bad = { 192.0.2.1 }\ndeny src $bad\n")?;
    /// let mut update = firewall.update();
    /// let bad = update.set("bad")?;
    /// let replaced = update.reload_set(bad, "192.0.2.1 # still\n198.51.100.0/24\n")?;
    /// assert_eq!((replaced.inserted, replaced.removed), (1, 0));
    /// let fault = update.reload_set(bad, "192.0.2.1\n192.0.2\n").unwrap_err();
    /// assert!(fault.to_string().contains("line 2, column 1"));
    /// update.commit()?;
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    ///
    /// # Errors
    /// If a line is no member, and as [`Update::insert_member`].
    pub fn reload_set(&mut self, set: SetId, list: &str) -> Result<Replaced, Error> {
        let family = match self.writer.rules().schemas() {
            [one] => one.family().map_or(String::new(), |family| format!("family {family}\n")),
            _ => String::new(),
        };
        let options = Options { format: Some(formats::Format::Native), max_warnings: 0, ..self.inner.options.clone() };
        let text = format!("{family}live set members = {{ include \"the list\" }}\n");
        let file = formats::parse_with(&text, &options, &|_| Ok(list.to_owned()))?;
        let members = file.rules.live_sets().iter().flat_map(|(_, set)| set.members());
        self.replace_members(set, members)
    }

    /// Changes live sets in the open transaction.
    fn change_sets<R>(
        &mut self,
        change: impl FnOnce(&mut Transaction<'_>) -> Result<R, UpdateError>,
    ) -> Result<R, Error> {
        let mut transaction = self.writer.resume();
        let changed = change(&mut transaction);
        transaction.keep();
        Ok(changed?)
    }
}
