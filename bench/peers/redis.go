package main

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/redis/rueidis"
)

var redisContestants = []contestant{
	{name: "redis-setnx", setup: "bare rueidis: SET NX GET, then SET with the result, AOF always, unix socket, pipelined by the client; a duplicate polls every 5 ms", servers: []string{"redis"}, open: openSetNX},
}

// setNX marks a key as begun and overwrites the mark with the result. A key
// whose process has died stays marked.
type setNX struct {
	client rueidis.Client
	place  *place
}

// begun is followed by the arguments.
const begun = "?"

func openSetNX(_ context.Context, p *place) (caller, error) {
	option, err := rueidis.ParseURL(p.Redis)
	if err != nil {
		return nil, err
	}
	option.DisableCache = true
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, err
	}
	return &setNX{client, p}, nil
}

func (s *setNX) Call(ctx context.Context, key string) (json.RawMessage, error) {
	was, err := s.client.Do(ctx, s.client.B().Set().Key(key).Value(begun+string(arguments)).Nx().Get().Build()).AsBytes()
	switch {
	case rueidis.IsRedisNil(err):
		result := s.place.effect(key)
		return result, s.client.Do(ctx, s.client.B().Set().Key(key).Value(rueidis.BinaryString(result)).Build()).Error()
	case err != nil || !bytes.HasPrefix(was, []byte(begun)):
		return was, err
	}
	return await(ctx, 5*time.Millisecond, func() (json.RawMessage, error) {
		now, err := s.client.Do(ctx, s.client.B().Get().Key(key).Build()).AsBytes()
		if err != nil || bytes.HasPrefix(now, []byte(begun)) {
			return nil, err
		}
		return now, nil
	})
}

func (s *setNX) Close() error {
	s.client.Close()
	return nil
}
