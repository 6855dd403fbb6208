use block::Nanos;

use crate::{insert_all, ms, read, scheduler, serve, serve_all, write};

const NOW: Nanos = Nanos::ZERO;

#[test]
fn requests_of_one_direction_go_in_ascending_order() {
    let mut deadline = scheduler("deadline");
    insert_all(&mut *deadline, NOW, [read(0, 100), read(1, 900), read(2, 500), read(3, 300)]);
    assert_eq!(serve_all(&mut *deadline, NOW), [100, 300, 500, 900]);
}

#[test]
fn an_expired_read_is_served_although_the_elevator_is_elsewhere() {
    for (waited, first) in [(499, 5_020), (500, 100)] {
        let mut deadline = scheduler("deadline:fifo_batch=1");
        insert_all(&mut *deadline, NOW, [read(0, 5_000), read(1, 100)]);
        assert_eq!(serve(&mut *deadline, NOW), 5_000);
        insert_all(&mut *deadline, NOW, [read(2, 5_010)]);
        assert_eq!(serve(&mut *deadline, NOW), 100, "nothing lay ahead when 5000 left");
        insert_all(&mut *deadline, NOW, [read(3, 100), read(4, 5_020), read(5, 6_000)]);
        assert_eq!(serve(&mut *deadline, ms(1)), 5_010);
        assert_eq!(serve(&mut *deadline, ms(waited)), first, "after {waited} ms");
    }
}

#[test]
fn an_expired_request_waits_until_the_batch_is_over() {
    let mut deadline = scheduler("deadline:fifo_batch=3");
    insert_all(&mut *deadline, NOW, [read(0, 1_000), read(1, 10), read(2, 2_000), read(3, 3_000), read(4, 4_000)]);
    let order: Vec<u64> = (0..5).map(|_| serve(&mut *deadline, ms(1_000))).collect();
    assert_eq!(order, [1_000, 2_000, 3_000, 10, 4_000]);
}

#[test]
fn reads_pass_over_writes_at_most_writes_starved_times() {
    let mut deadline = scheduler("deadline:fifo_batch=2,writes_starved=3");
    insert_all(&mut *deadline, NOW, (0..40).map(|n| read(n, u64::from(n) * 100)));
    insert_all(&mut *deadline, NOW, (0..40).map(|n| write(100 + n, 1_000_000 + u64::from(n) * 100)));
    let directions: String = (0..24).map(|_| if serve(&mut *deadline, ms(1)) < 1_000_000 { 'r' } else { 'w' }).collect();
    assert_eq!(directions, "rrrrrrwwrrrrrrwwrrrrrrww");
}

#[test]
fn a_batch_has_fifo_batch_requests() {
    let mut deadline = scheduler("deadline");
    insert_all(&mut *deadline, NOW, [read(99, 1 << 40)]);
    assert_eq!(serve(&mut *deadline, NOW), 1 << 40);
    insert_all(&mut *deadline, NOW, (0..64).map(|n| write(n, u64::from(n) * 100)));
    serve(&mut *deadline, ms(1));
    insert_all(&mut *deadline, NOW, [read(99, 1 << 40)]);
    let writes_before_the_read = (0..64).take_while(|_| serve(&mut *deadline, ms(1)) < 1 << 40).count();
    assert_eq!(writes_before_the_read, 15, "one of the batch of sixteen had gone before");
}

#[test]
fn a_batch_follows_its_next_request_when_that_grows_at_the_front() {
    let mut deadline = scheduler("deadline");
    insert_all(&mut *deadline, NOW, [read(0, 100), read(1, 300), read(2, 500)]);
    assert_eq!(serve(&mut *deadline, NOW), 100);
    assert_eq!(deadline.insert(NOW, read(3, 292)), block::Insertion::Merged { into: 1, absorbed: None });
    assert_eq!(serve_all(&mut *deadline, NOW), [292, 500]);
}
