// Who holds a place, who stands by for it, and which host was started again.
#include "rendezvous/core/hosts.h"

#include <gtest/gtest.h>

#include "rendezvous/core/options.h"

namespace muster::rendezvous {
namespace {

const BootTime kStart = absl::UnixEpoch();

v1::AgentStatus Status(const std::string& id, int place, v1::Phase phase = v1::PHASE_READY) {
  v1::AgentStatus status;
  status.set_host_id(id);
  status.set_hostname(id);
  status.set_phase(phase);
  if (place >= 0) status.set_place(place);
  return status;
}

class HostsTest : public testing::Test {
 protected:
  // A status arrives on this stream.
  Host& Hear(StreamId stream, const v1::AgentStatus& status, BootTime now = kStart) {
    hosts_.Attach(now, stream, status);
    Host& host = hosts_.Get(status.host_id());
    host.Store(status);
    host.last_status_at = now;
    hosts_.Claim(host);
    return host;
  }

  Hosts hosts_;
};

TEST_F(HostsTest, TheFirstToClaimAPlaceHoldsIt) {
  const Host& first = Hear(1, Status("a", 0));
  const Host& second = Hear(2, Status("b", 0));
  EXPECT_EQ(hosts_.HolderOf(0), &first);
  EXPECT_TRUE(hosts_.HoldsPlace(first));
  EXPECT_FALSE(hosts_.HoldsPlace(second));
}

TEST_F(HostsTest, AHostWithoutAPlaceNeedsNone) { EXPECT_TRUE(hosts_.HoldsPlace(Hear(1, Status("a", -1)))); }

TEST_F(HostsTest, AnObserverHoldsNoPlace) {
  v1::AgentStatus observer = Status("a", 0);
  observer.set_role(v1::ROLE_OBSERVER);
  Hear(1, observer);
  EXPECT_EQ(hosts_.HolderOf(0), nullptr);
}

TEST_F(HostsTest, WhoStandsByGetsThePlaceOfAHostThatIsErased) {
  Hear(1, Status("a", 0));
  const Host& second = Hear(2, Status("b", 0));
  hosts_.Erase("a");
  EXPECT_EQ(hosts_.HolderOf(0), &second);
  hosts_.Erase("b");
  EXPECT_EQ(hosts_.HolderOf(0), nullptr);
}

TEST_F(HostsTest, WhoStandsByGetsThePlaceOfAnUnusableHolder) {
  Hear(1, Status("a", 0));
  const Host& second = Hear(2, Status("b", 0));
  Hear(1, Status("a", 0, v1::PHASE_UNUSABLE));
  EXPECT_EQ(hosts_.HolderOf(0), &second);
}

TEST_F(HostsTest, AnUnusableHolderKeepsItsPlaceIfNobodyUsableStandsBy) {
  const Host& first = Hear(1, Status("a", 0));
  Hear(2, Status("b", 0, v1::PHASE_LEAVING));
  Hear(1, Status("a", 0, v1::PHASE_UNUSABLE));
  EXPECT_EQ(hosts_.HolderOf(0), &first);
}

TEST_F(HostsTest, AHolderIsARivalOnceItIsHeardWellAfterTheOtherAttached) {
  Host& holder = Hear(1, Status("a", 0));
  const Host& other = Hear(2, Status("b", 0));
  holder.last_status_at = kStart + kRivalAfter - absl::Nanoseconds(1);
  EXPECT_EQ(hosts_.RivalOf(other), nullptr);
  EXPECT_TRUE(hosts_.Rivalries().empty());
  holder.last_status_at = kStart + kRivalAfter;
  EXPECT_EQ(hosts_.RivalOf(other), &holder);
  ASSERT_EQ(hosts_.Rivalries().size(), 1u);
  EXPECT_EQ(hosts_.Rivalries()[0].other, &other);
}

TEST_F(HostsTest, WithoutAPlaceOrAStreamAHostHasNoRival) {
  Hear(1, Status("a", 0)).last_status_at = kStart + kRivalAfter;
  EXPECT_EQ(hosts_.RivalOf(Hear(2, Status("b", -1))), nullptr);
  Host& other = Hear(3, Status("c", 0));
  ASSERT_NE(hosts_.RivalOf(other), nullptr);
  hosts_.Detach(&other);
  EXPECT_EQ(hosts_.RivalOf(other), nullptr);
}

TEST_F(HostsTest, ANewerStreamReplacesTheOlderOne) {
  Host& host = Hear(1, Status("a", 0));
  host.exchange.order_sent = 3;
  EXPECT_EQ(hosts_.Attach(kStart, 1, host.status), std::nullopt);
  EXPECT_EQ(host.exchange.order_sent, 3);
  EXPECT_EQ(hosts_.Attach(kStart + absl::Seconds(1), 2, host.status), StreamId{1});
  EXPECT_EQ(host.exchange.order_sent, -1) << "the new session has not heard its order";
  EXPECT_EQ(host.attached_at, kStart + absl::Seconds(1));
  EXPECT_EQ(hosts_.IdOf(1), "");
  EXPECT_EQ(hosts_.IdOf(2), "a");
}

TEST_F(HostsTest, APlaceIsSeenOnceItsNodeHasAttached) {
  Hear(1, Status("a", 4));
  hosts_.Erase("a");
  EXPECT_EQ(hosts_.places_seen(), std::set<int>{4});
}

TEST_F(HostsTest, AHostWasStartedAgainIfAnotherOfItsPlaceBeganAfterItsLastStatus) {
  const Host& lost = Hear(1, Status("a", 0));
  Host& again = Hear(2, Status("b", 0));
  again.joined_at = kStart;
  EXPECT_EQ(StartedLast(hosts_).After(lost), nullptr);
  again.joined_at = kStart + absl::Seconds(1);
  EXPECT_EQ(StartedLast(hosts_).After(lost), &again);
}

TEST_F(HostsTest, WithoutAPlaceTheHostnameTellsWhetherAHostWasStartedAgain) {
  v1::AgentStatus same_name = Status("b", -1);
  same_name.set_hostname("a");
  const Host& lost = Hear(1, Status("a", -1));
  Host& again = Hear(2, same_name);
  again.joined_at = kStart + absl::Seconds(1);
  EXPECT_EQ(StartedLast(hosts_).After(lost), &again);
}

TEST_F(HostsTest, AHostThatIsErasedMeanwhileIsNotNamedAsTheOneStartedAgain) {
  const Host& lost = Hear(1, Status("a", 0));
  Hear(2, Status("b", 0)).joined_at = kStart + absl::Seconds(1);
  const StartedLast started(hosts_);
  hosts_.Erase("b");
  EXPECT_EQ(started.After(lost), nullptr);
}

// They become parts of texts for all nodes, which refuse a text that is too long.
TEST_F(HostsTest, TextsAboutTheStateOfAHostAreCut) {
  v1::AgentStatus status = Status("a", 0);
  status.set_trouble(std::string(10'000, 'x'));
  status.set_preparing(std::string(10'000, 'x'));
  status.set_how_host_ended(std::string(10'000, 'x'));
  const v1::AgentStatus& stored = Hear(1, status).status;
  for (const std::string& text : {stored.trouble(), stored.preparing(), stored.how_host_ended()})
    EXPECT_LE(text.size(), kMaxTroubleText + 3);
}

// ---- Exchange -----------------------------------------------------------------------------------------------

TEST(ExchangeTest, AStatusIsCurrentOnceItHasAppliedTheFirstDirectiveOfTheEpoch) {
  v1::Epoch epoch;
  epoch.set_number(1);
  Host host;
  *host.status.mutable_applied()->mutable_epoch() = epoch;
  host.status.mutable_applied()->set_seq(4);
  EXPECT_FALSE(host.IsCurrent(epoch)) << "nothing was sent";
  host.exchange.NoteSent(5, kStart, 0);
  EXPECT_TRUE(host.Follows(epoch));
  EXPECT_FALSE(host.IsCurrent(epoch));
  host.status.mutable_applied()->set_seq(5);
  EXPECT_TRUE(host.IsCurrent(epoch));
  epoch.set_number(2);
  EXPECT_FALSE(host.Follows(epoch));
}

TEST(ExchangeTest, KnowsWhenTheAppliedDirectiveWasSent) {
  Exchange exchange;
  exchange.NoteSent(5, kStart, 0);
  exchange.NoteSent(6, kStart + absl::Seconds(1), 0);
  exchange.NoteApplied(6);
  EXPECT_EQ(exchange.echoed_sent_at, kStart + absl::Seconds(1));
  exchange.NoteApplied(5);  // late: what is known stays
  EXPECT_EQ(exchange.echoed_sent_at, kStart + absl::Seconds(1));
}

TEST(ExchangeTest, RemembersABoundedNumberOfSends) {
  Exchange exchange;
  for (uint64_t seq = 1; seq <= kMaxRememberedSends + 1; ++seq) exchange.NoteSent(seq, kStart, 0);
  exchange.NoteApplied(1);
  EXPECT_EQ(exchange.echoed_sent_at, absl::InfinitePast());
  exchange.NoteApplied(2);
  EXPECT_EQ(exchange.echoed_sent_at, kStart);
}

TEST(ExchangeTest, NothingOfAnEarlierEpochCountsInANewOne) {
  Exchange exchange;
  exchange.NoteSent(5, kStart, 2);
  exchange.run_seq = exchange.stop_seq = exchange.release_seq = 5;
  exchange.NoteApplied(5);
  exchange.events_seq = 6;
  exchange.BeginEpoch();
  EXPECT_EQ(exchange.counts_from + exchange.run_seq + exchange.stop_seq + exchange.release_seq, 0u);
  EXPECT_EQ(exchange.events_seq, 0u) << "the events are sent again";
  EXPECT_EQ(exchange.order_sent, -1);
  EXPECT_EQ(exchange.echoed_sent_at, absl::InfinitePast());
  exchange.NoteApplied(5);
  EXPECT_EQ(exchange.echoed_sent_at, absl::InfinitePast());
}

}  // namespace
}  // namespace muster::rendezvous
