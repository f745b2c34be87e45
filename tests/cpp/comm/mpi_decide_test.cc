// Who decides about MPI: whether it is used, and which way an allreduce goes. Tables.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "comm/mpi/allreduce_impl.h"
#include "comm/mpi/choice.h"
#include "testing/says.h"

namespace hvdlite::comm::mpi {
namespace {

rendezvous::Roster Job(const std::vector<std::string>& hosts,
                       const std::vector<std::string>& libraries,
                       const std::vector<std::string>& absent = {}) {
  std::vector<rendezvous::Member> members(hosts.size());
  for (size_t i = 0; i < hosts.size(); ++i) {
    members[i].rank = static_cast<int>(i);
    members[i].host_id = hosts[i];
    members[i].mpi = libraries[i];
    if (!absent.empty()) members[i].mpi_absent = absent[i];
  }
  rendezvous::Roster roster;
  EXPECT_TRUE(rendezvous::MakeRoster(std::move(members), &roster).ok());
  return roster;
}

TEST(MpiVerdict, IsUsedBetweenHostsWhereAllHaveIt) {
  mpi::Choice choice;
  ASSERT_TRUE(Decide(Job({"a", "a", "b"}, {"X 1", "X 1", "X 1"}), "auto", &choice).ok());
  EXPECT_TRUE(choice.use);
  EXPECT_EQ(choice.why, "X 1");
  for (const std::string preference : {"net", "shm", "gloo"}) {
    ASSERT_TRUE(Decide(Job({"a", "b"}, {"X 1", "X 1"}), preference, &choice).ok());
    EXPECT_FALSE(choice.use) << preference;
  }
}

TEST(MpiVerdict, WithinAHostOnlyOnDemand) {
  mpi::Choice choice;
  ASSERT_TRUE(Decide(Job({"a", "a"}, {"X 1", "X 1"}), "auto", &choice).ok());
  EXPECT_FALSE(choice.use);
  ASSERT_TRUE(Decide(Job({"a", "a"}, {"X 1", "X 1"}), "mpi", &choice).ok());
  EXPECT_TRUE(choice.use);
}

TEST(MpiVerdict, ARankWithoutItIsNamed) {
  const rendezvous::Roster job = Job({"a", "b"}, {"X 1", ""}, {"", "mpi4py is not installed"});
  mpi::Choice choice;
  ASSERT_TRUE(Decide(job, "auto", &choice).ok());
  EXPECT_FALSE(choice.use);
  EXPECT_EQ(choice.why, "rank 1 has no MPI: mpi4py is not installed");
  const Status demanded = Decide(job, "mpi", &choice);
  EXPECT_TRUE(FailsWith(demanded, StatusCode::kInvalidArgument,
                        "rank 1 has no MPI: mpi4py is not installed"));
}

TEST(MpiVerdict, WhereNobodyAskedThereIsNothingToSay) {
  mpi::Choice choice;
  ASSERT_TRUE(Decide(Job({"a", "b"}, {"", ""}), "auto", &choice).ok());
  EXPECT_FALSE(choice.use);
  EXPECT_EQ(choice.why, "");
}

TEST(MpiVerdict, TwoDifferentOnesAreAnError) {
  mpi::Choice choice;
  for (const std::string preference : {"auto", "mpi"}) {
    const Status mixed = Decide(Job({"a", "b", "b"}, {"X 1", "X 1", "Y 2"}), preference, &choice);
    EXPECT_TRUE(
        FailsWith(mixed, StatusCode::kInvalidArgument, "rank 0 has X 1 and rank 2 has Y 2"));
    EXPECT_FALSE(choice.use);
  }
}

struct WayRow {
  int members;
  int64_t bytes;
  DType dtype;
  ReduceOp op;
  std::string preference;
  AllreduceImpl way;
};

TEST(MpiWay, Table) {
  const int64_t kib = 1024, mib = 1024 * kib;
  const auto sum = ReduceOp::kSum;
  const std::vector<WayRow> rows = {
      {2, 4, DType::kFloat32, sum, "auto", AllreduceImpl::kOneShot},
      {2, 64 * mib, DType::kFloat32, sum, "auto", AllreduceImpl::kDirect},
      {4, 4 * kib, DType::kFloat32, sum, "auto", AllreduceImpl::kOneShot},
      {4, mib, DType::kFloat32, sum, "auto", AllreduceImpl::kDirect},
      {256, 64 * kib, DType::kInt64, sum, "auto", AllreduceImpl::kLibrary},
      {256, 64 * kib, DType::kInt64, sum, "direct", AllreduceImpl::kDirect},
      // The library adds in an order of its own, which depends on what is fused: floats go to it on
      // demand only.
      {256, 4, DType::kFloat32, sum, "auto", AllreduceImpl::kGather},
      {256, 64 * kib, DType::kFloat32, sum, "auto", AllreduceImpl::kDirect},
      {256, 64 * kib, DType::kFloat64, sum, "library", AllreduceImpl::kLibrary},
      // What MPI would round, or compare, otherwise than promised is never its business.
      {256, 4, DType::kFloat16, sum, "auto", AllreduceImpl::kGather},
      {256, 4, DType::kBFloat16, sum, "library", AllreduceImpl::kGather},
      {256, 4, DType::kBool, sum, "library", AllreduceImpl::kGather},
      {256, 4, DType::kFloat32, ReduceOp::kMin, "library", AllreduceImpl::kGather},
      {256, 4, DType::kFloat64, ReduceOp::kMax, "library", AllreduceImpl::kGather},
      {4, 4, DType::kFloat32, sum, "gather", AllreduceImpl::kGather},
      {4, 64 * mib, DType::kFloat32, sum, "gather", AllreduceImpl::kDirect},
      {256, 4, DType::kInt32, ReduceOp::kMax, "library", AllreduceImpl::kLibrary},
      {2, 4, DType::kFloat32, sum, "library", AllreduceImpl::kLibrary},
      {2, 4, DType::kFloat32, ReduceOp::kProduct, "library", AllreduceImpl::kLibrary},
      {256, 64 * kib, DType::kFloat32, sum, "direct", AllreduceImpl::kDirect},
  };
  for (const WayRow& row : rows) {
    Question question;
    question.dtype = row.dtype;
    question.bytes = row.bytes;
    question.members = row.members;
    EXPECT_EQ(ChooseImpl(question, row.op, row.preference), row.way)
        << row.members << " members, " << row.bytes
        << " bytes: " << ExplainImpl(question, row.op, row.preference);
  }
}

TEST(MpiWay, SaysWhy) {
  Question question;
  question.bytes = 4096;
  question.members = 2;
  EXPECT_EQ(ExplainImpl(question, ReduceOp::kSum, "library"),
            "MPI_Iallreduce, 4096 bytes among 2 members (HVDLITE_MPI_ALLREDUCE=library)");
  question.dtype = DType::kBFloat16;
  EXPECT_EQ(ExplainImpl(question, ReduceOp::kSum, "library"),
            "one-shot, 4096 bytes among 2 members (Sum of bfloat16 is not done by MPI, which "
            "would round or compare differently)");
}

}  // namespace
}  // namespace hvdlite::comm::mpi
