// Which token a node shows, and when it gives up.
#include "rendezvous/gate/credentials.h"

#include <gtest/gtest.h>

#include <string>

namespace muster::rendezvous {
namespace {

// What a client with this token sends first, to a job of that run.
std::string HelloWith(const std::string& token, const std::string& run) {
  std::string hello;
  EXPECT_TRUE(TokenCredentials({token}, run)->Connect(0)->Start(&hello).ok());
  return hello;
}

TEST(TokenCredentialsTest, AHelloNamesTheJobsKey) {
  const std::string old = "a-token-of-22-characters", next = "the-next-token-of-22-characters";
  const auto credentials = TokenCredentials({old, next}, "run");
  EXPECT_TRUE(credentials->IsNamedIn(HelloWith(old, "run")));
  EXPECT_TRUE(credentials->IsNamedIn(HelloWith(next, "run")));
  EXPECT_FALSE(credentials->IsNamedIn(HelloWith("another-token-of-22-characters", "run")));
  EXPECT_FALSE(credentials->IsNamedIn(HelloWith(old, "another run")));
  EXPECT_FALSE(credentials->IsNamedIn(""));
}

TEST(CredentialTurnTest, TheOnlyTokenIsRefusedForGood) {
  CredentialTurn turn;
  EXPECT_EQ(turn.Next(1, 1), 0u);
  EXPECT_TRUE(turn.OnRefused(1));
}

TEST(CredentialTurnTest, TheSecondTokenFollowsTheFirst) {
  CredentialTurn turn;
  EXPECT_EQ(turn.Next(1, 2), 0u);
  EXPECT_FALSE(turn.OnRefused(1));
  EXPECT_EQ(turn.Next(1, 2), 1u);
  EXPECT_TRUE(turn.OnRefused(1)) << "both were refused";
  EXPECT_EQ(turn.Next(1, 2), 0u) << "a node that goes on all the same begins anew";
}

TEST(CredentialTurnTest, OtherFailuresKeepTheTurn) {
  CredentialTurn turn;
  turn.Next(1, 2);
  EXPECT_FALSE(turn.OnRefused(1));
  EXPECT_EQ(turn.Next(1, 2), 1u);
  EXPECT_EQ(turn.Next(1, 2), 1u);
}

TEST(CredentialTurnTest, AnAcceptedTokenBeginsAnew) {
  CredentialTurn turn;
  turn.Next(1, 2);
  EXPECT_FALSE(turn.OnRefused(1));
  turn.OnAccepted();
  EXPECT_EQ(turn.Next(1, 2), 0u);
}

TEST(CredentialTurnTest, ARefusalOfReplacedTokensIsNotFinal) {
  CredentialTurn turn;
  EXPECT_EQ(turn.Next(1, 1), 0u);
  EXPECT_FALSE(turn.OnRefused(2));
  EXPECT_EQ(turn.Next(2, 1), 0u);
  EXPECT_TRUE(turn.OnRefused(2));
}

}  // namespace
}  // namespace muster::rendezvous
