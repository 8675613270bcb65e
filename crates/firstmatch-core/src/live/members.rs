//! Live sets in transactions.

use super::writer::{Transaction, Undo, Writer};
use crate::error::UpdateError;
use crate::rule::{LiveSet, Member, SetId};

impl Transaction<'_> {
    /// Adds an empty live set, which rules can test.
    ///
    /// # Errors
    /// If a set has the name already.
    pub fn add_set(&mut self, name: &str) -> Result<SetId, UpdateError> {
        let id = self.writer.rules.live_sets_mut().add(name)?;
        self.writer.undo.push(Undo::Set);
        Ok(id)
    }

    /// Adds a member to a live set; returns whether it is new.
    ///
    /// Members may overlap. The commit costs the pieces of addresses that the member covers, however many members there
    /// are.
    ///
    /// ```
    /// use firstmatch_core::live::{self, Config};
    /// use firstmatch_core::rule::{Action, NamedCondition, Priority, RuleSet, RuleSpec, Test};
    /// use firstmatch_core::Schema;
    ///
    /// let mut rules = RuleSet::new(Schema::ipv4());
    /// let bad = rules.live_sets_mut().add("bad")?;
    /// rules.live_sets_mut().insert(bad, "192.0.2.0/24".parse()?)?;
    /// let conditions = rules.bind([NamedCondition::new("src", [Test::Set(bad)])])?;
    /// let (priority, action) = (Priority::of_line(1), Action::Deny);
    /// rules.insert(RuleSpec { priority, action, conditions, family: None, line: None, value: 0 })?;
    ///
    /// let (_, mut writer) = live::open(rules, &Config::default())?;
    /// let mut transaction = writer.begin();
    /// assert!(transaction.insert_member(bad, "198.51.100.7".parse()?)?);
    /// assert!(!transaction.insert_member(bad, "192.0.2.0/24".parse()?)?); // it is one already
    /// transaction.commit()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the id is unknown, or there would be more members than [`SetLimits`](super::SetLimits) allows. The
    /// transaction is then as it was.
    pub fn insert_member(&mut self, set: SetId, member: Member) -> Result<bool, UpdateError> {
        let Writer { rules, changer, .. } = &mut *self.writer;
        let most = changer.config.sets.members;
        let is_full = rules.live_sets().members() >= most;
        if is_full && !rules.live_sets().get(set).is_some_and(|set| set.has(member)) {
            return Err(UpdateError::set_limit("members", most));
        }
        let is_new = rules.live_sets_mut().insert(set, member)?;
        if is_new {
            changer.next_sets.members.push((set, member, true));
        }
        Ok(is_new)
    }

    /// Removes a member of a live set; returns whether it was one.
    ///
    /// Addresses that other members of the set hold stay in it.
    ///
    /// # Errors
    /// If the id is unknown. The transaction is then as it was.
    pub fn remove_member(&mut self, set: SetId, member: Member) -> Result<bool, UpdateError> {
        let Writer { rules, changer, .. } = &mut *self.writer;
        let was = rules.live_sets_mut().remove(set, member)?;
        if was {
            changer.next_sets.members.push((set, member, false));
        }
        Ok(was)
    }

    /// Replaces the members of a live set; returns the numbers of those that came and of those that went.
    ///
    /// Only the difference is changed.
    ///
    /// # Errors
    /// As [`Transaction::insert_member`]. The transaction is then as it was.
    pub fn replace_members(
        &mut self,
        set: SetId,
        members: impl IntoIterator<Item = Member>,
    ) -> Result<[usize; 2], UpdateError> {
        let mut new: Vec<Member> = members.into_iter().collect();
        new.sort_unstable();
        new.dedup();
        let sets = self.rules().live_sets();
        let of: &LiveSet = sets.get(set).ok_or_else(|| UpdateError::no_set(set))?;
        let most = self.writer.changer.config.sets.members;
        if sets.members() - of.len() + new.len() > most {
            return Err(UpdateError::set_limit("members", most));
        }
        let came: Vec<Member> = new.iter().copied().filter(|&member| !of.has(member)).collect();
        let went: Vec<Member> = of.members().filter(|member| new.binary_search(member).is_err()).collect();
        for &member in &went {
            self.remove_member(set, member)?;
        }
        for &member in &came {
            self.insert_member(set, member)?;
        }
        Ok([came.len(), went.len()])
    }
}
