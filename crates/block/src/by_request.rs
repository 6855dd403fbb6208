//! Values by the id of a request, for lookups on the hot path: nothing is allocated once there were as many requests at once.

use slab::Slab;

use crate::RequestId;
use crate::hash_index::HashIndex;

/// A value for each request.
#[derive(Debug)]
pub(crate) struct ByRequest<T> {
    values: Slab<(RequestId, T)>,
    by_id: HashIndex,
}

impl<T> Default for ByRequest<T> {
    fn default() -> ByRequest<T> {
        ByRequest { values: Slab::new(), by_id: HashIndex::default() }
    }
}

impl<T> ByRequest<T> {
    fn key(&self, id: RequestId) -> Option<u32> {
        self.by_id.get(u64::from(id)).next()
    }

    pub(crate) fn get(&self, id: RequestId) -> Option<&T> {
        self.key(id).map(|key| &self.values[key as usize].1)
    }

    pub(crate) fn get_mut(&mut self, id: RequestId) -> Option<&mut T> {
        self.key(id).map(|key| &mut self.values[key as usize].1)
    }

    /// Adds the value of a request that has none.
    pub(crate) fn insert(&mut self, id: RequestId, value: T) {
        let key = self.values.insert((id, value));
        self.by_id.insert(u64::from(id), key as u32);
    }

    pub(crate) fn remove(&mut self, id: RequestId) -> Option<T> {
        let key = self.key(id)?;
        self.by_id.remove(u64::from(id), key);
        Some(self.values.remove(key as usize).1)
    }

    /// Number of requests.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// All requests with their values, in no particular order.
    pub(crate) fn into_entries(self) -> impl Iterator<Item = (RequestId, T)> {
        self.values.into_iter().map(|(_, entry)| entry)
    }

    /// All values, in no particular order.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.values.iter_mut().map(|(_, (_, value))| value)
    }
}
