// Drain, lease, takeover and verdict (rendezvous/core, agent/process/core, agent/host/core) with everything else left out:
// two hosts, --nnodes 1:2, one coordinator that lives in host PRIMARY's agent, dies and comes back without memory.
// The other host's link holds one message each way, as late as it likes; a newer one replaces it: that one is lost.
// PRIMARY's own agent is in the coordinator's process: what they tell each other arrives at once.
//
// Time is abstract: the Clock ticks whenever it likes, and a lease is LEASE ticks. All times are counted down to 0.
// A tick ends leases on the hosts and on the coordinator's side in one step, hosts first: that is the margin.
// A host may always end its round sooner.
//
// Switches that plant a bug, each of which must be found: STALE_READY, LEASE_FROM_RECEIPT, CLOSE_IS_DEATH,
// VERDICT_UNKEPT, ROUND_REPEATS, NO_WAIT_FOR_ABSENT, UNHEARD_ROUND, RUN_AGAIN.
#define N 2
#define PRIMARY 0
#ifndef LEASE
#define LEASE 1                                   // ticks
#endif
#define ALL 3                                     // sets of hosts are bit masks
#define BIT(h) (1 << (h))
#define MAX(a, b) ((a) > (b) -> (a) : (b))
#ifndef ROUNDS
#define ROUNDS 2                                  // greatest round number: then a failure is the verdict
#endif
#ifndef TICKS
#define TICKS 1                                   // of the clock: a lease may end, and its successor not
#endif
#ifndef DEATHS
#define DEATHS 1                                  // of the coordinator
#endif
#ifndef CLOSES
#define CLOSES 1                                  // of the other host's stream: a dead agent or a cut connection
#endif

// Ids compare as pairs: epochs by (number, random), rounds by (number, epoch).
#define EPOCH(number, random) ((number) * 4 + (random))
#define ROUND(number, epoch) ((number) * 16 + (epoch))
#define EPOCH_NUMBER(e) ((e) / 4)
#define ROUND_NUMBER(r) ((r) / 16)

mtype = { READY, RUNNING, STOPPING, SUCCEEDED, FAILED };                            // phases of a host
mtype = { WAIT, RUN, STOP, VERDICT, NONE };                                         // orders
mtype = { DOWN, RECOVERING, GATHERING, ROUND_RUNS, DRAINING, CONCLUDED };           // states of the coordinator
#define ACTIVE(phase) (phase == RUNNING || phase == STOPPING)

typedef Status {
  bit here; mtype phase = READY; byte epoch, seq;  // the directive applied
  byte last; byte members;                         // the greatest round told to this host
  byte verdict;                                    // 0: none, else exit code + 1
  byte left                                        // ticks until LEASE after it was sent
}
typedef Directive { bit here; mtype order = NONE; byte epoch, seq, round, members, verdict, left; bit lease }

Status up[N];
Directive down[N];

// A host, its memory (it survives the agent) and its workers.
Status me[N];
byte started[N];   // the newest round started
byte alive[N];     // the round whose workers live, 0 for none
byte deadline[N];  // ticks left of the lease

// The coordinator. All of it is lost when it dies.
mtype state = DOWN;
byte epoch, greatest, members, max_number, verdict, patience;  // patience: ticks until no unseen lease can run
bit ours, first_round, any_failure;
byte in_round, done, known, attached;                          // sets of hosts
Status seen[N];
byte lease_until[N], silence_left[N];
byte seq[N], run_seq[N], stop_seq[N], counts_from[N];
mtype sent[N] = NONE;

// What only the observer knows.
byte deaths, closes, ticks;
byte exited0[N];       // the round that this host's workers left with 0
byte told;             // the first verdict that any host stored
short used_round[4], used_epoch;   // bits: of a round number the epochs, the epochs

#define has(set, h) (((set) & BIT(h)) != 0)
#define claims(h) (greatest != 0 && seen[h].last == greatest && has(seen[h].members, h))
#define fresh(h) (seen[h].epoch == epoch && counts_from[h] != 0)
#define counts(h) (fresh(h) && seen[h].seq >= counts_from[h])
#define is_ready(h) (has(known & attached, h) && seen[h].phase == READY && counts(h))
#define is_active(h) (has(known, h) && ACTIVE(seen[h].phase))
#ifdef STALE_READY
#define names_stop(h) (stop_seq[h] != 0 && fresh(h))
#else
#define names_stop(h) (stop_seq[h] != 0 && fresh(h) && seen[h].seq >= stop_seq[h])
#endif
// Whom nobody has seen since this coordinator started may hold a lease of the one before, also in a round of which
// those who are here have not heard: UNHEARD_ROUND waits only for the members of the greatest round that is named.
#ifdef NO_WAIT_FOR_ABSENT
#define absent_may_run false
#elif defined(UNHEARD_ROUND)
#define absent_may_run (!ours && patience > 0 && missing != 0)
#else
#define absent_may_run (!ours && patience > 0 && (missing != 0 || (known & attached) != ALL))
#endif
#ifdef VERDICT_UNKEPT
#define verdict_kept true
#else
#define verdict_kept (seen[PRIMARY].verdict != 0)
#endif

// ---- the hosts ----------------------------------------------------------------------------------------------

inline start_round(h, id) {
  assert(alive[0] == 0 || alive[0] == id);  // workers of two rounds never live at once
  assert(alive[1] == 0 || alive[1] == id);
  assert(alive[h] == 0);
  assert(id > started[h]);                     // a host starts a round once
  started[h] = id; alive[h] = id; me[h].phase = RUNNING
}

inline stop_workers(h) {
  if
  :: alive[h] != 0 -> me[h].phase = STOPPING
  :: else -> me[h].phase = READY
  fi
}

inline apply(h) {
  if
  :: down[h].epoch > me[h].epoch || (down[h].epoch == me[h].epoch && down[h].seq >= me[h].seq) ->
    me[h].epoch = down[h].epoch; me[h].seq = down[h].seq;
    if
    :: down[h].round > me[h].last -> me[h].last = down[h].round; me[h].members = down[h].members
    :: else
    fi;
#ifdef LEASE_FROM_RECEIPT
    if
    :: down[h].lease -> deadline[h] = LEASE
    :: else
    fi;
#else
    if
    :: down[h].lease -> deadline[h] = MAX(deadline[h], down[h].left)
    :: else
    fi;
#endif
    if
#ifdef RUN_AGAIN
    :: down[h].order == RUN && me[h].phase == READY && deadline[h] > 0 -> start_round(h, down[h].round)
#else
    :: down[h].order == RUN && me[h].phase == READY && deadline[h] > 0 && down[h].round > started[h] ->
      start_round(h, down[h].round)
#endif
    :: down[h].order == STOP -> stop_workers(h)
    :: down[h].order == VERDICT ->
      assert(told == 0 || told == down[h].verdict);  // the verdict is the same everywhere
      told = down[h].verdict; me[h].verdict = told; stop_workers(h)
    :: else
    fi
  :: else
  fi
}

#define clear(m) m.here = 0; m.epoch = 0; m.seq = 0; m.verdict = 0; m.left = 0; m.members = 0
#define copy(from, to) \
  to.phase = from.phase; to.epoch = from.epoch; to.seq = from.seq; to.last = from.last; \
  to.members = from.members; to.verdict = from.verdict; to.left = from.left

inline lose_directive(h) { clear(down[h]); down[h].order = NONE; down[h].round = 0; down[h].lease = 0 }
inline lose_status(h) { clear(up[h]); up[h].phase = READY; up[h].last = 0 }

inline post_status(h) { copy(me[h], up[h]); up[h].left = LEASE; up[h].here = 1 }

inline end_workers(h, how) { alive[h] = 0; deadline[h] = 0; me[h].phase = how }

proctype Host(byte h) {
  do
  :: d_step { h != PRIMARY && state != DOWN -> post_status(h) }
  :: d_step { down[h].here -> apply(h); lose_directive(h) }
  :: d_step { me[h].phase == RUNNING -> exited0[h] = alive[h]; end_workers(h, SUCCEEDED) }
  :: d_step { me[h].phase == RUNNING -> end_workers(h, FAILED) }
  // The lease is about to end. (The primary's own host: only at the tick itself. It keeps the search small.)
  :: d_step { h != PRIMARY && me[h].phase == RUNNING && deadline[h] == 1 -> me[h].phase = STOPPING }
  :: d_step { me[h].phase == STOPPING -> end_workers(h, READY) }
  od
}

// ---- the coordinator ----------------------------------------------------------------------------------------

inline new_epoch(above, draw) {
  epoch = EPOCH(EPOCH_NUMBER(above) + 1, draw);
  used_epoch = used_epoch | BIT(epoch);
  ours = 0; done = 0; patience = LEASE;
  for (i : 0 .. N - 1) { counts_from[i] = 0; run_seq[i] = 0; stop_seq[i] = 0; sent[i] = NONE }
  i = 0;
  if
  :: verdict == 0 -> state = RECOVERING
  :: else
  fi
}

inline learn_round(h) {
  if
  :: seen[h].last == 0
  :: else ->
    first_round = 0;
    max_number = MAX(max_number, ROUND_NUMBER(seen[h].last));
#ifndef ROUND_REPEATS
    if
    :: seen[h].last > greatest && !ours ->
      greatest = seen[h].last; members = seen[h].members; in_round = 0; done = 0;
      if
      :: state == GATHERING -> state = RECOVERING
      :: else
      fi
    :: else
    fi;
#endif
    if
    :: !ours && claims(h) -> in_round = in_round | BIT(h)
    :: else
    fi;
    if
    :: has(in_round, h) && claims(h) && seen[h].phase == SUCCEEDED -> done = done | BIT(h)
    :: else
    fi
  fi
}

inline record(h, news) {
  copy(news, seen[h]);
  known = known | BIT(h); attached = attached | BIT(h);
  silence_left[h] = LEASE;
  learn_round(h);
  if
  :: seen[h].verdict != 0 && verdict == 0 -> verdict = seen[h].verdict; state = CONCLUDED
  :: else
  fi
}

inline come_back(draw) {
  state = RECOVERING; first_round = 1;
  new_epoch(me[PRIMARY].epoch, draw);
  record(PRIMARY, me[PRIMARY])      // its own host is the first that it hears, over no network
}

inline forget(h) {                  // what it has done stays; its stream is closed, what it said before counts no more
  known = known & ~BIT(h); attached = attached & ~BIT(h); in_round = in_round & ~BIT(h);
  clear(seen[h]); seen[h].phase = READY; seen[h].last = 0;
  lease_until[h] = 0; silence_left[h] = 0;
  run_seq[h] = 0; stop_seq[h] = 0; counts_from[h] = 0; sent[h] = NONE;
  lose_status(h)
}

inline die() {
  for (i : 0 .. N - 1) {
    forget(i);
    seq[i] = 0
  }
  lose_directive(PRIMARY);
  state = DOWN; epoch = 0; greatest = 0; members = 0; max_number = 0; verdict = 0; patience = 0;
  ours = 0; first_round = 0; any_failure = 0; done = 0;
  deaths++; i = 0
}

inline send(h) {
  if
  :: state == CONCLUDED && (h == PRIMARY || verdict_kept) -> order = VERDICT
  :: state == ROUND_RUNS && has(in_round, h) -> order = RUN
  :: state == DRAINING && has(in_round, h) -> order = STOP
  :: (state == GATHERING || state == ROUND_RUNS || state == DRAINING) && !has(in_round, h) &&
     seen[h].phase != READY -> order = STOP
  :: else -> order = WAIT
  fi;
  if
  :: order != sent[h] || (order == RUN && run_seq[h] == 0) || (order == STOP && stop_seq[h] == 0) ->
    seq[h]++; sent[h] = order
  :: else
  fi;
  if
  :: counts_from[h] == 0 -> counts_from[h] = seq[h]
  :: else
  fi;
  if
  :: order == RUN && run_seq[h] == 0 -> run_seq[h] = seq[h]
  :: order == STOP && stop_seq[h] == 0 ->
    stop_seq[h] = seq[h];
#ifndef STALE_READY
    counts_from[h] = seq[h]
#endif
  :: else
  fi;
  down[h].here = 1; down[h].order = order; down[h].epoch = epoch; down[h].seq = seq[h];
  down[h].round = greatest; down[h].members = members; 
  down[h].verdict = (order == VERDICT -> verdict : 0);
  down[h].lease = (order == RUN || (order == WAIT && state == RECOVERING && has(in_round, h) && claims(h)));
  if
  :: down[h].lease -> down[h].left = seen[h].left; lease_until[h] = MAX(lease_until[h], silence_left[h])
  :: else
  fi;
  order = NONE
}

inline drain() {
  state = DRAINING;
  for (i : 0 .. N - 1) { stop_seq[i] = 0 }
  i = 0
}

inline make_round(who) {
#ifdef ROUND_REPEATS
  max_number = ROUND_NUMBER(greatest);
  greatest = ROUND(max_number + 1, 0);
#else
  greatest = ROUND(max_number + 1, epoch);
#endif
  assert(!has(used_round[max_number + 1], greatest % 16));                 // a round id never repeats
  used_round[max_number + 1] = used_round[max_number + 1] | BIT(greatest % 16);
  max_number++; members = who; in_round = who; done = 0; ours = 1; first_round = 0; any_failure = 0;
  for (i : 0 .. N - 1) { run_seq[i] = 0; stop_seq[i] = 0 }
  i = 0;
  state = ROUND_RUNS
}

inline conclude(code) {
  if
  :: code == 0 ->                                // 0 only if all workers of one round exited 0
    assert(!has(members, 0) || exited0[0] == greatest);
    assert(!has(members, 1) || exited0[1] == greatest)
  :: else
  fi;
  verdict = code + 1; state = CONCLUDED
}

#define ready_set ((is_ready(0) -> 1 : 0) | (is_ready(1) -> 2 : 0))
#define on_the_way(h) (has(known, h) && !is_ready(h))
#define may_run(h) (is_active(h) && lease_until[h] > 0)
#define still_there(h) (claims(h) && (seen[h].phase == RUNNING || seen[h].phase == SUCCEEDED))
#define all_back ((!has(members, 0) || (has(known, 0) && still_there(0))) && \
                  (!has(members, 1) || (has(known, 1) && still_there(1))))
#define broken(h) (has(known, h) && fresh(h) && \
                   (claims(h) && !still_there(h) || seen[h].last != greatest && has(seen[h].members, h)))
#define stopped(h) (has(in_round & ~done, h) && (seen[h].phase == FAILED && claims(h) || \
                    fresh(h) && run_seq[h] != 0 && seen[h].seq >= run_seq[h] && \
                    (seen[h].phase == READY || seen[h].phase == STOPPING)))
#define newcomer ((ready_set & ~in_round) != 0 && done == 0 && members != ALL)
#define drained(h) (!has(attached, h) && lease_until[h] == 0 || names_stop(h) && seen[h].phase == READY)
#define all_drained ((has(in_round, 0) -> drained(0) : !may_run(0)) && \
                     (has(in_round, 1) -> drained(1) : !may_run(1)))
#define missing (members & ~(in_round | done))
#define deaf(h) (has(known, h) && lease_until[h] == 0 && (silence_left[h] == 0 || !has(attached, h)))

#define gathered (state == GATHERING && ready_set != 0 && !may_run(0) && !may_run(1) && max_number < ROUNDS)

// Whatever it has heard, it decides at once, until nothing changes any more.
inline decide() {
  do
  :: state == RECOVERING && greatest == 0 && (ready_set == ALL || patience == 0) -> state = GATHERING
  :: state == RECOVERING && greatest != 0 && all_back -> ours = 1; state = ROUND_RUNS
  :: state == RECOVERING && greatest != 0 && !all_back && (broken(0) || broken(1) || patience == 0) -> drain()
  :: gathered && (ready_set == ALL || !first_round && !on_the_way(0) && !on_the_way(1)) -> make_round(ready_set)
  :: state == ROUND_RUNS && done == members -> conclude(0)
  :: state == ROUND_RUNS && done != members && (stopped(0) || stopped(1) || newcomer) -> drain()
  // Draining: those who are here, and those whom nobody has seen since this coordinator started.
  :: state == DRAINING && all_drained && !absent_may_run ->
    if
    :: max_number >= ROUNDS -> conclude(1)
    :: else -> in_round = 0; done = 0; ours = 1; state = GATHERING
    fi
  :: else -> break
  od;
  i = 0
}

inline hear(h) {
  if
  :: up[h].epoch > epoch && EPOCH_NUMBER(up[h].epoch) < 3 -> new_epoch(up[h].epoch, 0)
  :: else
  fi;
  record(h, up[h]);
  lose_status(h);
  decide()
}

active proctype Coordinator() {
  byte i; mtype order = NONE;
  atomic { me[0].left = 0; run Host(0); run Host(1) }
  do
  // Dies, comes back, hears, sends.
  :: d_step { state == DOWN && !has(used_epoch, EPOCH(EPOCH_NUMBER(me[PRIMARY].epoch) + 1, 1)) -> come_back(1); decide() }
  :: d_step { state == DOWN && deaths > 0 && !has(used_epoch, EPOCH(EPOCH_NUMBER(me[PRIMARY].epoch) + 1, 0)) -> come_back(0); decide() }
  :: d_step { state != DOWN && deaths < DEATHS -> die() }
  :: d_step { state != DOWN -> post_status(PRIMARY); hear(PRIMARY) }
  :: d_step { up[1].here -> hear(1) }
  :: d_step { has(attached, PRIMARY) -> send(PRIMARY); apply(PRIMARY); lose_directive(PRIMARY) }
  :: d_step { has(attached, 1) -> send(1) }
  // The stream of the other host closes: its agent died, or a proxy, NAT or timer cut it. It proves nothing.
  :: d_step { has(attached, 1) && closes < CLOSES ->
      closes++; attached = attached & ~BIT(1); lose_status(1); lose_directive(1); sent[1] = NONE;
#ifdef CLOSE_IS_DEATH
      in_round = in_round & ~BIT(1); known = known & ~BIT(1); lease_until[1] = 0;
      drain(); decide()
#endif
    }
  // Nothing granted can still run, and nothing is heard: lost. The primary's own host cannot be lost to it.
  :: d_step { deaf(1) && state != CONCLUDED ->
      if
      :: has(in_round & ~done, 1) && state == ROUND_RUNS -> drain()
      :: else
      fi;
      forget(1); lose_directive(1); decide() }
  // It waited long enough: the last call of the first round, the reconnect grace of a closed stream.
  :: d_step { gathered && first_round -> make_round(ready_set); decide() }
  :: d_step { state == ROUND_RUNS && has(in_round & ~done, 1) && !has(attached, 1) -> drain(); decide() }
  od
}

#define count_down(x) x = (x > 0 -> x - 1 : 0)

active proctype Clock() {
  byte i;
  do
  :: d_step { ticks < TICKS ->
      ticks++;
      for (i : 0 .. N - 1) {
        if
        :: deadline[i] == 1 && alive[i] != 0 -> end_workers(i, READY)
        :: else -> count_down(deadline[i])
        fi;
        count_down(up[i].left); count_down(seen[i].left); count_down(down[i].left);
        count_down(lease_until[i]); count_down(silence_left[i])
      }
      count_down(patience); i = 0;
      decide() }
  od
}
