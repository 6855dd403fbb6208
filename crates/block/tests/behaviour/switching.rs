use block::{Insertion, Pick, Request, switch};

use crate::{insert_all, ms, read, scheduler, serve};

#[test]
fn the_host_is_notified_of_merges_in_a_switch() {
    let (mut cfq, mut clook) = (scheduler("cfq"), scheduler("clook"));
    insert_all(&mut *cfq, ms(0), [read(1, 100), Request { stream: 2, ..read(2, 116) }, Request { stream: 3, ..read(3, 108) }]);
    let mut merges = Vec::new();
    switch(&mut *cfq, &mut *clook, ms(1), |request, insertion| merges.push((request.id, insertion)));
    assert_eq!(merges, [(3, Insertion::Merged { into: 1, absorbed: Some(2) })]);
    assert!(matches!(clook.pick(ms(1)), Pick::Go(request) if (request.lba, request.sectors) == (100, 24)));
}

#[test]
fn waiting_time_is_kept_in_a_switch() {
    let (mut clook, mut deadline) = (scheduler("clook"), scheduler("deadline:fifo_batch=1"));
    insert_all(&mut *clook, ms(0), [read(1, 5_000)]);
    insert_all(&mut *clook, ms(400), [read(2, 100), read(3, 6_000)]);
    switch(&mut *clook, &mut *deadline, ms(450), |_, _| {});
    assert_eq!(serve(&mut *deadline, ms(450)), 5_000, "the oldest begins");
    insert_all(&mut *deadline, ms(450), [read(1, 7_000)]);
    assert_eq!(serve(&mut *deadline, ms(899)), 6_000);
    assert_eq!(serve(&mut *deadline, ms(900)), 100, "it came at 400, the successor at 450");
}
