//! Objects with the members of a record, or of a function's parameters.

use std::ops::Range;

use super::Reader;
use crate::path::shown;
use crate::types::{Brief, Field, Type};
use crate::value::ValueError;

/// Something with named and typed members in a fixed order.
pub(super) trait Members {
    fn len(&self) -> usize;
    fn get(&self, index: usize) -> Option<(&str, &Type)>;
}

impl Members for [Field] {
    fn len(&self) -> usize {
        <[Field]>::len(self)
    }

    fn get(&self, index: usize) -> Option<(&str, &Type)> {
        <[Field]>::get(self, index).map(|field| (&*field.name, &field.ty))
    }
}

impl Members for [(String, Type)] {
    fn len(&self) -> usize {
        <[(String, Type)]>::len(self)
    }

    fn get(&self, index: usize) -> Option<(&str, &Type)> {
        <[(String, Type)]>::get(self, index).map(|(name, ty)| (name.as_str(), ty))
    }
}

/// The index of a member, looked for first at `hint`, where it is when members come in order.
fn position(members: &(impl Members + ?Sized), hint: usize, name: &str) -> Option<usize> {
    let is = |index: &usize| members.get(*index).is_some_and(|(found, _)| found == name);
    Some(hint).filter(is).or_else(|| (0..members.len()).find(is))
}

impl<'a> Reader<'a> {
    /// An object whose members may come in any order, written in the order of the type.
    pub(super) fn members(
        &mut self,
        members: &'a (impl Members + ?Sized),
        noun: &str,
    ) -> Result<(), ValueError> {
        let opened = self.cursor.expect(b'{');
        self.token(opened)?;
        let start = self.out.len();
        let mut places: Vec<Option<Range<usize>>> = vec![None; members.len()];
        let mut in_order = true;
        let mut next = 0;
        let mut more = !self.cursor.eat(b'}');
        while more {
            let name = self.cursor.string();
            let name = self.token(name)?;
            let Some(index) = position(members, next, &name) else {
                return Err(self.unknown_member(members, &name, noun));
            };
            let (Some((known, ty)), Some(place)) = (members.get(index), places.get_mut(index)) else {
                return Err(self.unknown_member(members, &name, noun));
            };
            self.path.name(known);
            if place.is_some() {
                return Err(self.path.error("given twice"));
            }
            let colon = self.cursor.expect(b':');
            self.token(colon)?;
            let from = self.out.len();
            self.value(ty)?;
            *place = Some(from..self.out.len());
            self.path.pop();
            in_order &= index == next;
            next = index + 1;
            let comma = self.cursor.more(b'}');
            more = self.token(comma)?;
        }
        if in_order && next == members.len() {
            return Ok(());
        }
        self.reorder(members, start, &places)
    }

    /// Writes members again in the order of the type, with none for the options that were not given.
    fn reorder(
        &mut self,
        members: &'a (impl Members + ?Sized),
        start: usize,
        places: &[Option<Range<usize>>],
    ) -> Result<(), ValueError> {
        let written = self.out.split_off(start);
        for (index, place) in places.iter().enumerate() {
            let Some((name, ty)) = members.get(index) else { continue };
            let result = match place {
                Some(place) => {
                    let bytes =
                        written.get(place.start.saturating_sub(start)..place.end.saturating_sub(start));
                    self.out.raw(bytes.unwrap_or_default())
                }
                None if matches!(ty, Type::Option(_)) => self.out.case(0),
                None => {
                    self.path.name(name);
                    return Err(self.path.error(format!("missing; expected {}", Brief(ty))));
                }
            };
            self.wrote(result)?;
        }
        Ok(())
    }

    fn unknown_member(&self, members: &(impl Members + ?Sized), name: &str, noun: &str) -> ValueError {
        let known: Vec<&str> =
            (0..members.len()).filter_map(|index| members.get(index)).map(|(name, _)| name).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        self.path.error(format!("unknown {noun} \"{}\"; there is {}", shown(name), Brief(&known)))
    }
}
