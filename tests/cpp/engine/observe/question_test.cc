#include "engine/observe/question.h"

#include <gtest/gtest.h>

namespace hvdlite::engine {
namespace {

using Kind = Question::Kind;

TEST(Question, is_heard_once_and_answered_once) {
  Question question;
  EXPECT_EQ(question.Wait(0), Kind::kNothing);
  question.Ask(kSecond);
  EXPECT_EQ(question.Wait(0), Kind::kWhere);
  EXPECT_EQ(question.Wait(0), Kind::kNothing);
  EXPECT_FALSE(question.TakeAnswer(kSecond));
  question.Answer("train.py:88", true);
  const auto answer = question.TakeAnswer(kSecond);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->place, "train.py:88");
  EXPECT_TRUE(answer->in_wait);
  EXPECT_FALSE(question.TakeAnswer(10 * kSecond));
}

TEST(Question, says_once_for_each_question_that_Python_does_not_answer) {
  Question question;
  question.Ask(kSecond);
  EXPECT_FALSE(question.TakeAnswer(kSecond + Question::kPatience - 1));
  auto silence = question.TakeAnswer(kSecond + Question::kPatience);
  ASSERT_TRUE(silence);
  EXPECT_EQ(silence->place, "");
  EXPECT_EQ(silence->unanswered, Question::kPatience);
  EXPECT_FALSE(question.TakeAnswer(2 * kSecond));
  // The time counts from the first question that has had no answer.
  question.Ask(61 * kSecond);
  EXPECT_FALSE(question.TakeAnswer(61 * kSecond));
  silence = question.TakeAnswer(62 * kSecond);
  ASSERT_TRUE(silence);
  EXPECT_EQ(silence->unanswered, 61 * kSecond);
  question.Answer("train.py:88", false);
  EXPECT_EQ(question.TakeAnswer(63 * kSecond)->place, "train.py:88");
  question.Ask(70 * kSecond);
  EXPECT_EQ(question.TakeAnswer(71 * kSecond)->unanswered, kSecond);
}

TEST(Question, passes_on_each_new_wish_of_a_user_once) {
  Question question;
  question.AskForReport(0);
  EXPECT_EQ(question.Wait(0), Kind::kNothing);
  question.AskForReport(2);
  question.AskForReport(2);
  EXPECT_EQ(question.Wait(0), Kind::kReport);
  EXPECT_EQ(question.Wait(0), Kind::kNothing);
  question.AskForReport(3);
  EXPECT_EQ(question.Wait(0), Kind::kReport);
}

TEST(Question, tells_the_verdict_before_the_end) {
  Question question;
  question.Ask(kSecond);
  question.Tell("rank 2 has not asked");
  question.Close();
  EXPECT_EQ(question.Wait(0), Kind::kWhere);
  EXPECT_EQ(question.Wait(0), Kind::kVerdict);
  EXPECT_EQ(question.verdict(), "rank 2 has not asked");
  EXPECT_EQ(question.Wait(kSecond), Kind::kClosed);
}

}  // namespace
}  // namespace hvdlite::engine
