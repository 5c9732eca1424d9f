//! A PostgreSQL and a Redis for those who test from outside of Rust, on loopback, in folders that go with them:
//! it says where they are, makes an empty database for each line that it reads and says where that is, and ends
//! both when its input ends, however whoever started it went.

use std::io;

use tenure_redis::testing::Server as Redis;
use tenure_store::conformance::Server as Postgres;

/// As the documents have it.
const PASSWORD: &str = "password";

fn main() -> io::Result<()> {
    let redis = Redis::with_password(PASSWORD);
    let postgres = Postgres::start();
    println!("{}", redis.url());
    for line in io::stdin().lines() {
        line?;
        println!("{}", postgres.database());
    }
    Ok(())
}
