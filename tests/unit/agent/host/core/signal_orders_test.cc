// Signals that somebody wants workers to have.
#include "agent/host/core/signal_orders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <variant>

namespace muster::host {
namespace {

using ::testing::ElementsAre;

class SignalOrdersTest : public testing::Test {
 protected:
  SignalOrdersTest() { round_.set_number(3); }

  v1::HostDirective Order(uint64_t number, int signal) {
    v1::HostDirective directive;
    directive.mutable_signal()->set_number(number);
    *directive.mutable_signal()->mutable_round() = round_;
    directive.mutable_signal()->set_signal(signal);
    directive.mutable_signal()->add_local_ranks(1);
    return directive;
  }
  std::vector<SignalRanks> Hear(const v1::HostDirective& directive, bool runs = true) {
    Effects out;
    orders_.OnDirective(directive, round_, runs, &out);
    std::vector<SignalRanks> sent;
    for (const Effect& effect : out) sent.push_back(std::get<SignalRanks>(effect));
    return sent;
  }
  v1::HostStatus Status() {
    v1::HostStatus status;
    orders_.Describe(&status);
    return status;
  }

  v1::RoundId round_;
  SignalOrders orders_;
};

TEST_F(SignalOrdersTest, AnOrderIsObeyedOnceAndItsAnswerNamesIt) {
  EXPECT_TRUE(Hear(v1::HostDirective()).empty());
  const std::vector<SignalRanks> sent = Hear(Order(5, SIGUSR1));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].signal, SIGUSR1);
  EXPECT_THAT(sent[0].local_ranks, ElementsAre(1));
  EXPECT_FALSE(Status().has_signalled());
  orders_.OnSignalled(2);
  EXPECT_EQ(Status().signalled().number(), 5u);
  EXPECT_EQ(Status().signalled().processes(), 2);
  EXPECT_TRUE(Hear(Order(5, SIGUSR1)).empty()) << "another agent brings it again";
  EXPECT_EQ(Status().signalled().number(), 5u);
  EXPECT_EQ(Hear(Order(6, SIGUSR1)).size(), 1u);
  EXPECT_FALSE(Status().has_signalled());
}

TEST_F(SignalOrdersTest, WhereTheseWorkersHaveEndedNobodyGotIt) {
  v1::HostDirective late = Order(5, SIGUSR1);
  late.mutable_signal()->mutable_round()->set_number(2);
  EXPECT_TRUE(Hear(late).empty());
  EXPECT_EQ(Status().signalled().number(), 5u);
  EXPECT_EQ(Status().signalled().processes(), 0);
  EXPECT_TRUE(Hear(Order(6, SIGUSR1), false).empty());
  EXPECT_EQ(Status().signalled().number(), 6u);
}

TEST_F(SignalOrdersTest, OnlySignalsThatAreMeantToEndOrHaltGoToWhoDoesNotHandleThem) {
  uint64_t number = 0;
  for (const int signal : {SIGKILL, SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGABRT, SIGSTOP, SIGCONT})
    EXPECT_FALSE(Hear(Order(++number, signal)).at(0).only_handlers) << signal;
  for (const int signal : {SIGUSR1, SIGUSR2, SIGWINCH, SIGALRM, SIGPIPE, SIGRTMIN})
    EXPECT_TRUE(Hear(Order(++number, signal)).at(0).only_handlers) << signal;
}

}  // namespace
}  // namespace muster::host
