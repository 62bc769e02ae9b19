// Which token a node shows, and when it gives up.
#include "rendezvous/gate/credentials.h"

#include <gtest/gtest.h>

namespace muster::rendezvous {
namespace {

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
