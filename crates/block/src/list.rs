//! Intrusive doubly linked lists.
//!
//! The items are in a `slab::Slab` or a `Vec`, and a list refers to them by index; the links are part of each item. Insertion and removal
//! anywhere take constant time and allocate nothing.
//!
//! ```text
//! items   0: next 3     1: vacant   2: next 0     3: next none
//!            prev 2                    prev none     prev 0
//! list    first 2, last 3, len 3                                   order: 2 -> 0 -> 3
//! ```

use core::ops::{Index, IndexMut};

const NONE: u32 = u32::MAX;

/// An item's neighbours in its list. Meaningless while the item is in none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Links {
    previous: u32,
    next: u32,
}

impl Links {
    /// The next item.
    #[inline]
    pub const fn next(self) -> Option<u32> {
        some(self.next)
    }

    /// The previous item.
    #[inline]
    pub const fn previous(self) -> Option<u32> {
        some(self.previous)
    }
}

impl Default for Links {
    fn default() -> Links {
        Links { previous: NONE, next: NONE }
    }
}

/// An item that can be in one [`List`] at a time.
pub trait Linked {
    /// Its neighbours.
    fn links(&self) -> &Links;

    /// Its neighbours, to be changed by the list only.
    fn links_mut(&mut self) -> &mut Links;
}

/// A list of items by index.
///
/// Every method that takes `items` must be given the storage of this list's items. Methods panic on an index that is vacant there. Removing
/// an item that is in no list, or in another one, corrupts the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    first: u32,
    last: u32,
    len: u32,
}

impl Default for List {
    fn default() -> List {
        List::new()
    }
}

impl List {
    /// An empty list.
    pub const fn new() -> List {
        List { first: NONE, last: NONE, len: 0 }
    }

    /// Number of items.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the list is empty.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The item at the front.
    #[inline]
    pub const fn first(&self) -> Option<u32> {
        some(self.first)
    }

    /// The item at the back.
    #[inline]
    pub const fn last(&self) -> Option<u32> {
        some(self.last)
    }

    /// The items from front to back.
    pub fn iter<'a, S>(&self, items: &'a S) -> impl Iterator<Item = u32> + use<'a, S>
    where
        S: Index<usize, Output: Linked> + ?Sized,
    {
        core::iter::successors(self.first(), |&index| items[index as usize].links().next())
    }

    /// Appends an item.
    #[inline]
    pub fn push_back<S>(&mut self, items: &mut S, index: u32)
    where
        S: IndexMut<usize, Output: Linked> + ?Sized,
    {
        self.link(items, index, Links { previous: self.last, next: NONE });
    }

    /// Prepends an item.
    #[inline]
    pub fn push_front<S>(&mut self, items: &mut S, index: u32)
    where
        S: IndexMut<usize, Output: Linked> + ?Sized,
    {
        self.link(items, index, Links { previous: NONE, next: self.first });
    }

    /// Inserts an item after another one of this list.
    #[inline]
    pub fn insert_after<S>(&mut self, items: &mut S, previous: u32, index: u32)
    where
        S: IndexMut<usize, Output: Linked> + ?Sized,
    {
        let next = items[previous as usize].links().next;
        self.link(items, index, Links { previous, next });
    }

    /// Removes an item of this list.
    #[inline]
    pub fn remove<S>(&mut self, items: &mut S, index: u32)
    where
        S: IndexMut<usize, Output: Linked> + ?Sized,
    {
        let links = *items[index as usize].links();
        self.unlink(items, links);
    }

    /// Unlinks an item that was already removed from the storage, by its former links.
    #[inline]
    pub fn unlink<S>(&mut self, items: &mut S, Links { previous, next }: Links)
    where
        S: IndexMut<usize, Output: Linked> + ?Sized,
    {
        match previous {
            NONE => self.first = next,
            _ => items[previous as usize].links_mut().next = next,
        }
        match next {
            NONE => self.last = previous,
            _ => items[next as usize].links_mut().previous = previous,
        }
        self.len -= 1;
    }

    /// Removes and returns the first item.
    #[inline]
    pub fn pop_front<S>(&mut self, items: &mut S) -> Option<u32>
    where
        S: IndexMut<usize, Output: Linked> + ?Sized,
    {
        let first = self.first()?;
        self.remove(items, first);
        Some(first)
    }

    /// Moves all items of another list of the same storage to the end of this one.
    #[inline]
    pub fn append<S>(&mut self, items: &mut S, other: List)
    where
        S: IndexMut<usize, Output: Linked> + ?Sized,
    {
        if other.is_empty() {
            return;
        }
        match self.last {
            NONE => self.first = other.first,
            _ => items[self.last as usize].links_mut().next = other.first,
        }
        items[other.first as usize].links_mut().previous = self.last;
        self.last = other.last;
        self.len += other.len;
    }

    /// Links an item between two neighbours, or at an end if one is missing.
    #[inline]
    fn link<S>(&mut self, items: &mut S, index: u32, links: Links)
    where
        S: IndexMut<usize, Output: Linked> + ?Sized,
    {
        *items[index as usize].links_mut() = links;
        match links.previous {
            NONE => self.first = index,
            previous => items[previous as usize].links_mut().next = index,
        }
        match links.next {
            NONE => self.last = index,
            next => items[next as usize].links_mut().previous = index,
        }
        self.len += 1;
    }
}

#[inline]
const fn some(index: u32) -> Option<u32> {
    if index == NONE { None } else { Some(index) }
}

#[cfg(test)]
mod tests {
    use alloc::collections::VecDeque;
    use alloc::vec::Vec;

    use proptest::prelude::*;
    use slab::Slab;

    use super::*;

    #[derive(Default)]
    struct Item {
        links: Links,
    }

    impl Linked for Item {
        fn links(&self) -> &Links {
            &self.links
        }

        fn links_mut(&mut self) -> &mut Links {
            &mut self.links
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        PushBack,
        PushFront,
        /// After the item at this position, modulo the length.
        InsertAfter(usize),
        Remove(usize),
        PopFront,
        /// Appends the other list to this one.
        Append,
    }

    fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
        let step = prop_oneof![
            4 => Just(Step::PushBack),
            2 => Just(Step::PushFront),
            2 => any::<usize>().prop_map(Step::InsertAfter),
            3 => any::<usize>().prop_map(Step::Remove),
            2 => Just(Step::PopFront),
            1 => Just(Step::Append),
        ];
        prop::collection::vec((0usize..2, step), 1..300)
    }

    proptest! {
        #[test]
        fn two_lists_in_one_slab_hold_what_two_queues_do(steps in steps()) {
            let mut items: Slab<Item> = Slab::new();
            let mut lists = [List::new(), List::new()];
            let mut models = [VecDeque::new(), VecDeque::new()];
            for (which, step) in steps {
                let (list, model) = (&mut lists[which], &mut models[which]);
                match step {
                    Step::PushBack => {
                        let index = items.insert(Item::default()) as u32;
                        list.push_back(&mut items, index);
                        model.push_back(index);
                    }
                    Step::PushFront => {
                        let index = items.insert(Item::default()) as u32;
                        list.push_front(&mut items, index);
                        model.push_front(index);
                    }
                    Step::InsertAfter(position) if !model.is_empty() => {
                        let position = position % model.len();
                        let index = items.insert(Item::default()) as u32;
                        list.insert_after(&mut items, model[position], index);
                        model.insert(position + 1, index);
                    }
                    Step::Remove(position) if !model.is_empty() => {
                        let index = model.remove(position % model.len()).unwrap();
                        list.remove(&mut items, index);
                        items.remove(index as usize);
                    }
                    Step::PopFront => {
                        let index = list.pop_front(&mut items);
                        prop_assert_eq!(index, model.pop_front());
                        index.map(|index| items.remove(index as usize));
                    }
                    Step::Append => {
                        let other = core::mem::take(&mut lists[1 - which]);
                        lists[which].append(&mut items, other);
                        let other = core::mem::take(&mut models[1 - which]);
                        models[which].extend(other);
                    }
                    Step::InsertAfter(_) | Step::Remove(_) => {}
                }
                for (list, model) in lists.iter().zip(&models) {
                    prop_assert!(list.iter(&items).eq(model.iter().copied()));
                    let backwards = core::iter::successors(list.last(), |&index| items[index as usize].links.previous());
                    prop_assert!(backwards.eq(model.iter().rev().copied()));
                    prop_assert_eq!((list.len(), list.is_empty()), (model.len(), model.is_empty()));
                    prop_assert_eq!((list.first(), list.last()), (model.front().copied(), model.back().copied()));
                }
            }
        }
    }

    #[test]
    fn items_may_lie_in_a_vector_too() {
        let mut items: Vec<Item> = (0..3).map(|_| Item::default()).collect();
        let mut list = List::new();
        for index in [2, 0, 1] {
            list.push_back(&mut items, index);
        }
        list.remove(&mut items, 0);
        assert!(list.iter(&items).eq([2, 1]));
    }
}
