foreach(name server session address)
  muster_test(wire_${name}_test SOURCES wire/${name}_test.cc DEPS muster_session)
endforeach()
