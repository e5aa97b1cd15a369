# One image for all three programs: heddle, heddle-coordinator, heddle-shard. Built from Debian's packages alone; scripts/setup has the list.
#
#   docker build -t heddle .
#   docker run --rm -p 127.0.0.1:7700:7700 -v heddle:/data heddle      a coordinator and two shards in one container
#   docker compose up                                                  a coordinator and three shards, each in its own

FROM debian:12-slim AS build
WORKDIR /src
COPY scripts/setup scripts/setup
RUN scripts/setup --build
COPY . .
RUN cmake -S . -B /build -G Ninja -DBUILD_TESTING=OFF -DCMAKE_INSTALL_PREFIX=/usr/local \
    && ninja -C /build heddle heddle-coordinator heddle-shard \
    && DESTDIR=/image cmake --install /build --strip

FROM debian:12-slim
RUN apt-get -qq update \
    && DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install \
       ca-certificates libcurl4 libgit2-1.5 libjansson4 libmicrohttpd12 libprotobuf-c1 librocksdb7.8 libsodium23 libsqlite3-0 \
       libutf8proc2 libzmq5 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --user-group --home-dir /data --shell /usr/sbin/nologin heddle \
    && install -d -o heddle -g heddle -m 0700 /data
COPY --from=build /image/usr/local/ /usr/local/
COPY LICENSE /usr/local/share/doc/heddle/LICENSE
USER heddle
WORKDIR /data
VOLUME /data
EXPOSE 7700
STOPSIGNAL SIGTERM
# Within the container HTTP listens on every address; what is published, and the TLS in front of it, is for whoever runs it to say.
CMD ["heddle", "serve", "--data", "/data", "--shards", "2", "--listen", "0.0.0.0:7700", "--allow-public-http"]
